"""The HDF5 contract: written whole or resumed to the same bytes, read by id, damage noticed."""

import os
import pickle
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.features.feature_file import FeatureFile, FeatureWriter, write_features
from pipeline.runtime.errors import WorkbenchError

ROOT = Path(__file__).resolve().parents[4]
ATTRIBUTES = {"model": "résnet", "params": '{"size": 128}', "corpus_sha256": "c0ffee" * 10}


def arrays(count: int = 12) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {
        "features": rng.normal(size=(count, 3, 5)).astype(np.float16),
        "boxes": rng.uniform(0, 128, size=(count, 3, 4)).astype(np.float32),
        "counts": rng.integers(0, 3, size=count),
    }


def names(count: int = 12) -> list[str]:
    return [f"bild-ä{number}" for number in range(count)]


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    path = tmp_path / "features.h5"
    write_features(path, names(), arrays(), ATTRIBUTES)
    return path


def open_writer(work: Path, fingerprint: str = "f", count: int = 12) -> FeatureWriter:
    datasets = {name: (value.shape[1:], value.dtype) for name, value in arrays(count).items()}
    return FeatureWriter(work, fingerprint, names(count), datasets, ATTRIBUTES, flush_seconds=0)


def write_rows(writer: FeatureWriter, rows: np.ndarray) -> None:
    writer.write(rows, **{name: value[rows] for name, value in arrays(len(writer.ids)).items()})


def test_values_ids_and_attributes_come_back_here_and_in_h5py(stored: Path) -> None:
    file = FeatureFile(stored)
    assert file.ids == names()
    assert file.attributes == {**ATTRIBUTES, "schema_version": 1}
    with h5py.File(stored) as plain:
        assert [name.decode() for name in plain["ids"][:]] == names()
        for name, array in arrays().items():
            np.testing.assert_array_equal(file.load(name), array)
            np.testing.assert_array_equal(plain[name][:], array)
            assert file.dtype(name) == plain[name].dtype == array.dtype


def test_equal_content_gives_equal_bytes(stored: Path, tmp_path: Path) -> None:
    again = tmp_path / "again.h5"
    write_features(again, names(), arrays(), dict(reversed(ATTRIBUTES.items())))
    assert again.read_bytes() == stored.read_bytes()
    assert FeatureFile(again).sha256 == FeatureFile(stored).sha256


@given(st.lists(st.integers(0, 11), max_size=30))
def test_random_batches_equal_fancy_indexing(tmp_path_factory, rows: list[int]) -> None:
    path = tmp_path_factory.getbasetemp() / "batches.h5"
    if not path.exists():
        write_features(path, names(), arrays(), ATTRIBUTES)
    file = FeatureFile(path)
    expected = arrays()["features"][np.array(rows, dtype=int)]
    np.testing.assert_array_equal(file.read(rows), expected)
    for outside in ([12], [0, 99]):
        with pytest.raises(IndexError):
            file.read(outside)
    assert file.in_memory(budget_bytes=10**6)
    np.testing.assert_array_equal(file.read(rows), expected)


def test_only_what_fits_the_budget_is_held(stored: Path) -> None:
    file = FeatureFile(stored)
    size = arrays()["features"].nbytes
    assert not file.in_memory(size - 1)
    assert file.in_memory(size)
    stored.unlink()
    np.testing.assert_array_equal(file.read([3]), arrays()["features"][[3]])


def test_a_pickled_file_reads_in_another_process(stored: Path) -> None:
    file = FeatureFile(stored)
    file.in_memory(10**6)
    text = pickle.dumps(file)
    assert arrays()["boxes"][0].tobytes() not in text
    np.testing.assert_array_equal(pickle.loads(text).read([7, 2]), arrays()["features"][[7, 2]])


def test_lookups_by_id(stored: Path) -> None:
    file = FeatureFile(stored)
    rows = file.rows(["bild-ä7", "bild-ä0", "bild-ä7"])
    assert rows.tolist() == [7, 0, 7]
    with pytest.raises(WorkbenchError) as error:
        file.rows(["bild-ä7", "nope"])
    for part in ("nope", str(stored), "12 ids", "résnet", "c0ffee"):
        assert part in str(error.value)


@pytest.mark.parametrize(
    ("ids", "word"),
    [
        ([], "no ids"),
        (["a", ""], "empty"),
        (["a", "b\0"], "NUL"),
        (["a", "\ud800"], "Unicode"),
        (["a", "b", "a"], "more than once: a"),
    ],
)
def test_ids_that_could_not_be_read_back_are_refused(tmp_path: Path, ids, word: str) -> None:
    with pytest.raises(WorkbenchError, match=word):
        write_features(tmp_path / "x.h5", ids, {"features": np.ones((len(ids), 2))}, {})
    assert not list(tmp_path.iterdir())


TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)


@given(st.lists(TEXT, min_size=1, max_size=8, unique=True))
def test_any_other_ids_come_back(tmp_path_factory, ids: list[str]) -> None:
    path = tmp_path_factory.getbasetemp() / "ids.h5"
    write_features(path, ids, {"features": np.ones((len(ids), 2), np.float32)}, {})
    assert FeatureFile(path).ids == ids


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_refused(tmp_path: Path, bad: float) -> None:
    values = np.ones((12, 2), np.float32)
    values[5, 1] = bad
    with pytest.raises(WorkbenchError, match=r"x\.h5, features: .*bild-ä5"):
        write_features(tmp_path / "x.h5", names(), {"features": values}, {})


def test_float16_overflow_is_an_error_and_not_infinity(tmp_path: Path) -> None:
    with FeatureWriter(tmp_path, "f", names(2), {"features": ((1,), np.float16)}, {}) as writer:
        writer.write([0], features=np.array([[65504.0]]))
        with pytest.raises(WorkbenchError, match=r"65,504.* for bild-ä1"):
            writer.write([1], features=np.array([[70000.0]]))
        assert writer.missing.tolist() == [1]


@given(st.permutations(range(12)), st.integers(1, 12))
def test_rows_in_any_order_and_batches_give_the_same_file(tmp_path_factory, order, size) -> None:
    folder = tmp_path_factory.mktemp("order")
    write_features(folder / "whole.h5", names(), arrays(), ATTRIBUTES)
    with open_writer(folder / "work") as writer:
        for start in range(0, 12, size):
            write_rows(writer, np.array(order[start : start + size]))
        writer.finish(folder / "resumed.h5")
    assert (folder / "resumed.h5").read_bytes() == (folder / "whole.h5").read_bytes()
    assert not list((folder / "work").iterdir())


def half_done(work: Path) -> tuple[Path, Path]:
    with open_writer(work) as writer:
        write_rows(writer, np.arange(6))
    return work / "f.h5", work / "f.mask"


def change(path: Path, old: bytes, new: bytes) -> None:
    path.write_bytes(path.read_bytes().replace(old, new))


@pytest.mark.parametrize(
    ("damage", "missing"),
    [
        (lambda data, mask: os.truncate(data, data.stat().st_size - 1), 12),
        (lambda data, mask: os.truncate(mask, 3), 12),
        (lambda data, mask: change(data, b"features", b"featureS"), 6),  # the name of a dataset
        (lambda data, mask: change(data, b"\xa47", b"\xa48"), 6),  # an id
    ],
)
def test_damaged_unfinished_work_is_mended_or_begun_again(
    tmp_path, stored, capsys, damage, missing
) -> None:
    damage(*half_done(tmp_path / "work"))
    with open_writer(tmp_path / "work") as writer:
        assert len(writer.missing) == missing
        assert ("begun again" in capsys.readouterr().err) == (missing == 12)
        write_rows(writer, writer.missing)
        writer.finish(tmp_path / "out.h5")
    assert (tmp_path / "out.h5").read_bytes() == stored.read_bytes()


def test_no_flipped_bit_of_unfinished_work_gets_into_the_file(tmp_path, stored, capsys) -> None:
    rng, expected = np.random.default_rng(16), stored.read_bytes()
    files = half_done(tmp_path / "work")
    whole = {path: path.read_bytes() for path in files}
    for number in range(40):
        flipped, damaged = files[number % 4 == 0], dict(whole)
        data = bytearray(whole[flipped])
        data[rng.integers(len(data))] ^= 1 << rng.integers(8)
        damaged[flipped] = bytes(data)
        for path, content in damaged.items():
            path.write_bytes(content)
        with open_writer(tmp_path / "work") as writer:
            write_rows(writer, writer.missing)
            writer.finish(tmp_path / "out.h5")
        assert (tmp_path / "out.h5").read_bytes() == expected
    assert " rows of unfinished work are damaged and are made again" in capsys.readouterr().err


def test_rows_outlive_a_kill_at_once_where_every_row_is_flushed(tmp_path: Path) -> None:
    writer = open_writer(tmp_path / "work")  # of which nothing is closed
    write_rows(writer, np.arange(5))
    copy = shutil.copytree(tmp_path / "work", tmp_path / "copy")
    with open_writer(copy) as again:
        assert again.missing.tolist() == list(range(5, 12))
    writer.close()


@pytest.mark.parametrize("text", ["", "a\0b", "ä" * 30_001])
def test_texts_that_hdf5_cannot_keep_are_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(WorkbenchError, match="attribute 'note': empty, holds NUL or exceeds 60000"):
        write_features(tmp_path / "f.h5", names(), arrays(), ATTRIBUTES | {"note": text})
    longest = ATTRIBUTES | {"note": "ä" * 30_000}
    write_features(tmp_path / "f.h5", names(), arrays(), longest)
    assert FeatureFile(tmp_path / "f.h5").attributes["note"] == longest["note"]


def test_started_again_all_rows_are_missing(tmp_path: Path, stored: Path) -> None:
    half_done(tmp_path / "work")
    with open_writer(tmp_path / "work") as writer:
        writer.start_again()
        assert len(writer.missing) == 12
        write_rows(writer, np.arange(12))
        write_rows(writer, np.arange(0))
        writer.finish(tmp_path / "out.h5")
    assert (tmp_path / "out.h5").read_bytes() == stored.read_bytes()


def test_work_with_another_fingerprint_or_without_its_mask_is_not_taken(tmp_path: Path) -> None:
    _, mask = half_done(tmp_path / "work")
    with open_writer(tmp_path / "work", "other") as writer:
        assert len(writer.missing) == 12
    mask.unlink()
    with open_writer(tmp_path / "work") as writer:
        assert len(writer.missing) == 12


def test_a_flipped_bit_in_the_values_is_noticed_when_loaded_whole(stored: Path) -> None:
    place = FeatureFile(stored).layouts["boxes"]
    data = bytearray(stored.read_bytes())
    data[place.offset + 17] ^= 4
    stored.write_bytes(data)
    with pytest.raises(WorkbenchError, match="'boxes' do not match"):
        FeatureFile(stored).load("boxes")
    np.testing.assert_array_equal(FeatureFile(stored).load("features"), arrays()["features"])


def hostile(path: Path, kind: str) -> None:
    text = h5py.string_dtype("utf-8", 4)
    with h5py.File(path, "w") as file:
        file.attrs["schema_version"] = 99 if kind == "schema" else 1
        if kind != "no ids":
            ids = [b"a", b"a"] if kind == "duplicates" else [b"a", b"b"]
            file.create_dataset("ids", data=np.array(ids).astype(text))
        options = {"chunks": (1, 2), "compression": "gzip"} if kind == "chunked" else {}
        dtype = {"object": h5py.string_dtype(), "big endian": ">f4"}.get(kind, "<f4")
        rows = 3 if kind == "rows" else 2
        if kind == "external":
            options["external"] = [("/etc/hostname", 0, 16)]
        if kind == "link":
            file["features"] = h5py.ExternalLink("/etc/other.h5", "/features")
        else:
            dataset = file.create_dataset("features", (rows, 2), dtype, **options)
            if kind in ("schema", "no ids", "rows", "duplicates"):
                dataset[...] = 1


@pytest.mark.parametrize(
    ("kind", "word"),
    [
        ("schema", "schema_version 99"),
        ("no ids", "no dataset of text ids"),
        ("duplicates", "damaged"),
        ("chunked", "not stored contiguously"),
        ("external", "not stored contiguously"),
        ("link", "link to elsewhere"),
        ("object", "has type object"),
        ("big endian", "has type >f4"),
        ("rows", "number of rows"),
    ],
)
def test_files_from_elsewhere_are_refused_plainly(tmp_path: Path, kind: str, word: str) -> None:
    path = tmp_path / "hostile.h5"
    hostile(path, kind)
    with pytest.raises(WorkbenchError, match=word):
        FeatureFile(path)


def test_missing_damaged_and_foreign_files_are_named(tmp_path: Path, stored: Path) -> None:
    for content in (b"", b"not HDF5 at all" * 100, stored.read_bytes()[:-1], b"\x89HDF\r\n\x1a\n"):
        path = tmp_path / "bad.h5"
        path.write_bytes(content)
        with pytest.raises(WorkbenchError, match=r"bad\.h5"):
            FeatureFile(path)
    with pytest.raises(WorkbenchError, match="no such file"):
        FeatureFile(tmp_path / "absent.h5")
    with pytest.raises(WorkbenchError, match="no dataset 'scores'; it has"):
        FeatureFile(stored).load("scores")


def test_a_kill_leaves_no_structure_in_memory(tmp_path):
    code = (
        "import os, signal, sys; from pathlib import Path; from pipeline.features import layout\n"
        "layout.SCRATCH = Path(sys.argv[1])\n"
        "layout.build_structure(lambda file: os.kill(os.getpid(), signal.SIGKILL), 0)\n"
    )
    process = subprocess.run([sys.executable, "-c", code, str(tmp_path)], cwd=ROOT)
    assert process.returncode == -signal.SIGKILL
    assert not list(tmp_path.iterdir())
