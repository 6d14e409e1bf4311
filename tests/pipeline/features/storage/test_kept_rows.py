"""Rows of earlier runs: a file with them has the bytes of one without them, whatever befalls."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from corpora import ROOT
from hypothesis import given, settings
from hypothesis import strategies as st
from kept_program import BATCH, make

from pipeline.features.batches import alone, in_blocks, packed_batches
from pipeline.features.feature_file import FeatureFile, write_features
from pipeline.features.kept_rows import INDEX, RowStore

FIRST = list(range(100, 121))
SECOND = [*range(100, 105), 7, *range(106, 118), 8]  # some removed, one changed, one added
SUPPORT = ROOT / "tests/support"

numbers = st.lists(st.integers(0, 30), min_size=1, max_size=23)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def full(values: list[int], kind: str = "alone") -> bytes:
    """The bytes of a file that is made without a store."""
    make("full.h5", values, kind=kind, limit=0)
    return Path("full.h5").read_bytes()


def index_and_file() -> tuple[Path, Path]:
    """The two files of the one store that there is."""
    (index,) = Path("rows").glob(f"*{INDEX}")
    (file,) = Path("rows").glob("*.h5")
    return index, file


@pytest.mark.parametrize("kind", ["alone", "blocks", "grouped"])
@settings(max_examples=20)
@given(runs=st.lists(numbers, min_size=2, max_size=3))
def test_any_runs_one_after_the_other(kind: str, runs: list[list[int]]) -> None:
    with TemporaryDirectory() as folder:
        here = os.getcwd()
        os.chdir(folder)
        try:
            for values in runs:
                make("kept.h5", values, kind=kind)
                assert Path("kept.h5").read_bytes() == full(values, kind)
        finally:
            os.chdir(here)


def test_only_new_rows_are_computed(capsys) -> None:
    assert make("a.h5", FIRST) == FIRST
    computed = make("a.h5", SECOND)
    assert (len(computed), {7, 8} <= set(computed)) == (BATCH, True)
    assert "reused 17 of 19 rows of an earlier run" in capsys.readouterr().err
    assert Path("a.h5").read_bytes() == full(SECOND)
    assert len(make("a.h5", SECOND)) == BATCH  # nothing is new: one batch shows that all is as ever
    make("b.h5", FIRST, kind="blocks", settings="b")
    added = [*FIRST, 9]
    assert make("b.h5", added, kind="blocks", settings="b") == added[20:]  # the last block alone
    assert Path("b.h5").read_bytes()[-40:] == full(added, "blocks")[-40:]


def test_rows_that_depend_on_their_neighbours_are_not_used(capsys) -> None:
    make("a.h5", FIRST, kind="neighbours")
    make("a.h5", SECOND, kind="neighbours")
    assert "some have other bytes now" in capsys.readouterr().err
    assert Path("a.h5").read_bytes() == full(SECOND, "neighbours")


def test_other_settings_find_nothing(capsys) -> None:
    make("a.h5", FIRST, settings="a network")
    assert make("b.h5", FIRST, settings="another network") == FIRST
    assert "reused" not in capsys.readouterr().err


def flip(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


def cut_index() -> None:
    index, _ = index_and_file()
    index.write_bytes(index.read_bytes()[:-50])


def junk_index() -> None:
    index_and_file()[0].write_bytes(b"junk")


def without_file() -> None:
    index_and_file()[1].unlink()


def empty_file() -> None:
    index_and_file()[1].write_bytes(b"")


def other_file() -> None:
    """Rows of another content under the name."""
    _, file = index_and_file()
    values = np.ones((len(FIRST), 2), np.float16)
    write_features(file, [f"id{row}" for row in range(len(FIRST))], {"features": values}, {})


def other_rows() -> None:
    """An index that names rows which the file does not have."""
    index, _ = index_and_file()
    file = FeatureFile(index)
    arrays = {"rows": file.load("rows") + 5, "checksums": file.load("checksums")}
    write_features(index, file.ids, arrays, file.attributes)


def foreign_index() -> None:
    """A store of another network, renamed."""
    make("foreign.h5", [*FIRST, 3], settings="another network")
    own, other = sorted(Path("rows").glob(f"*{INDEX}"), key=lambda path: len(FeatureFile(path)))
    other.replace(own)
    for file in list(Path("rows").glob(f"{other.stem}-*")):
        file.replace(file.with_name(file.name.replace(other.stem, own.stem)))


@pytest.mark.parametrize(
    "spoil",
    [cut_index, junk_index, without_file, empty_file, other_file, other_rows, foreign_index],
)
def test_a_damaged_store_is_passed_over_with_a_line(spoil, capsys) -> None:
    make("a.h5", FIRST)
    spoil()
    capsys.readouterr()
    assert make("a.h5", SECOND) == SECOND
    said = capsys.readouterr().err.splitlines()
    (line,) = [line for line in said if "earlier run" in line]
    assert line.startswith("rows of an earlier run are not used: rows/")
    assert Path("a.h5").read_bytes() == full(SECOND)
    assert len(make("a.h5", SECOND)) == BATCH  # the next run has a whole store again


def test_a_damaged_row_is_made_again(capsys) -> None:
    make("a.h5", FIRST)
    _, file = index_and_file()
    place = FeatureFile(file).layouts["features"].offset + 2 * 2 * 2  # of row 2: 102
    Path("a.h5").write_bytes(file.read_bytes())  # the output is another file from now on
    flip(file, place)
    assert 102 in make("a.h5", SECOND)
    assert "1 rows are damaged and are made again" in capsys.readouterr().err
    assert Path("a.h5").read_bytes() == full(SECOND)


def test_the_bound_removes_the_oldest_rows(capsys) -> None:
    size = make("a.h5", FIRST, settings="a") and Path("a.h5").stat().st_size / 1e9
    for number, name in enumerate("bcd"):
        make("a.h5", FIRST, settings=name, limit=2.5 * size)
        for index in Path("rows").glob(f"*{INDEX}"):  # clocks may be coarse
            os.utime(index, ns=(0, index.stat().st_mtime_ns - 10**9))
        assert len(list(Path("rows").glob("*.h5"))) == min(number + 2, 2)
    assert make("a.h5", FIRST, settings="a", limit=2.5 * size) == FIRST
    assert len(make("a.h5", FIRST, settings="d", limit=2.5 * size)) == BATCH
    capsys.readouterr()
    make("a.h5", FIRST, settings="e", limit=size / 2)
    assert "rows are not kept for later runs: 0.0 GB, more than" in capsys.readouterr().err
    assert make("a.h5", FIRST, settings="d", limit=0) == FIRST


def test_a_damaged_index_is_removed_with_its_rows(capsys) -> None:
    make("a.h5", FIRST, settings="a")
    index, _ = index_and_file()
    index.write_bytes(b"junk")
    os.utime(index, (2**32, 2**32))  # the newest, of which the others are judged
    make("b.h5", FIRST, settings="b")
    assert not index.exists()
    index_and_file()  # those of b alone


def test_a_store_that_cannot_be_written_harms_nothing(capsys) -> None:
    Path("rows").write_text("a file in its place")
    make("a.h5", FIRST)
    assert "rows are not kept for later runs" in capsys.readouterr().err
    assert Path("a.h5").read_bytes() == full(FIRST)


def run(values: list[int], kill: str = "") -> list[int]:
    """A process of its own; the numbers that it computed, none where it was killed."""
    paths = os.pathsep.join([str(SUPPORT), str(ROOT)])
    environment = os.environ | {"PYTHONPATH": paths, "KILL": kill}
    command = [sys.executable, "-m", "kept_program", "a.h5", *map(str, values)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == (-signal.SIGKILL if kill else 0), done.stderr
    return list(map(int, done.stdout.split()))


@pytest.mark.parametrize(
    ("kill", "computed"),
    [
        ("batch", 17),  # continues behind the first batch
        ("share", 21),  # the file was whole, which DVC does not know
        ("index", 21),
    ],
)
def test_killed_in_the_middle(kill: str, computed: int) -> None:
    """The run that fills the store, and the one that takes rows from it."""
    run(FIRST, kill)
    assert len(run(FIRST)) == computed
    run(SECOND, kill)
    assert len(run(SECOND)) == BATCH  # two are new; the last batch, or the one that shows
    assert Path("a.h5").read_bytes() == full(SECOND)
    assert not list(Path("work").glob("*"))


@given(keys=numbers, draw=st.data())
def test_batches_hold_what_is_missing(keys: list[int], draw) -> None:
    """Every missing row once, whole batches of one company, in blocks nothing but these."""
    rows = np.arange(len(keys))
    missing = np.array(sorted(draw.draw(st.sets(st.sampled_from(rows.tolist())))), np.int64)
    digests = list(map(str, keys))
    for inputs in (alone(digests, BATCH), in_blocks(digests, BATCH)):
        batches = packed_batches(missing, inputs)
        computed = [row for batch in batches for row in batch.tolist()]
        assert len(set(computed)) == len(computed)
        assert set(missing.tolist()) <= set(computed)
        for batch in batches:
            assert len({inputs.companies[row] for row in batch}) == 1
            assert batch.tolist() == sorted(batch.tolist())
        if not inputs.is_moved:
            blocks = sorted({row // BATCH for row in missing.tolist()})
            assert sorted(computed) == [row for row in rows if row // BATCH in blocks]


def test_a_folder_that_is_missing_has_no_rows() -> None:
    store = RowStore(Path("nowhere"), 1.0)
    assert store.find("key", alone(["1"], BATCH), {"features": ((2,), "float16")}) is None
