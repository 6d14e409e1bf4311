"""A disk that is full, or files that may not grow: the old file stays, and nothing is published
that is not what was written."""

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from full_disk import files_of_at_most, on_small_disk, resize, small_disks

from pipeline.features.feature_file import FeatureFile, FeatureWriter, write_features
from pipeline.features.groups import GroupFile, write_groups
from pipeline.features.weights import read_weights, write_weights
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.files import write_text

SIZES = (0, 96, 512, 2000, 3000, 4096, 6000, 1 << 20)
NAMES = [f"picture{number}" for number in range(40)]


def rows(seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {"features": rng.normal(size=(40, 60)).astype(np.float16), "counts": np.arange(40)}


def features(path: Path, seed: int) -> None:
    write_features(path, NAMES, rows(seed), {"model": f"m{seed}"})


def scores(path: Path, seed: int) -> None:
    values = np.random.default_rng(seed).normal(size=(30, 60)).astype(np.float32)
    write_groups(path, {"test": {"scores": values, "ids": NAMES}}, {"model": f"m{seed}"})


def weights(path: Path, seed: int) -> None:
    torch.manual_seed(seed)
    write_weights(path, {"w": torch.randn(40, 50)}, {"schema_version": 1, "seed": seed})


def resumed(path: Path, seed: int) -> None:
    kinds = {name: (value.shape[1:], value.dtype) for name, value in rows(seed).items()}
    with FeatureWriter(path.parent / "work", str(seed), NAMES, kinds, {"model": "m"}) as writer:
        writer.write(writer.missing, **{n: v[writer.missing] for n, v in rows(seed).items()})
        writer.finish(path)


def read_features(path: Path) -> None:
    for name in ("features", "counts"):
        FeatureFile(path).load(name)


def read_scores(path: Path) -> None:
    GroupFile(path).array("test", "scores")
    GroupFile(path).texts("test", "ids")


KINDS: dict[str, tuple[Callable[[Path, int], None], Callable[[Path], object]]] = {
    "features.h5": (features, read_features),
    "resumed.h5": (resumed, read_features),
    "scores.h5": (scores, read_scores),
    "w.safetensors": (weights, lambda path: read_weights(path, "checkpoint", 1)),
    "text.json": (lambda path, seed: write_text(path, f"{seed}" * 20_000), Path.read_text),
}


def refusal(name: str, path: Path) -> str:
    """The message with which the second of two versions of a file is refused, "" for none.

    Either way the file is whole afterwards: the first version where the second was refused.
    """
    write, read = KINDS[name]
    before = path.read_bytes()
    try:
        write(path, 1)
        message = ""
    except WorkbenchError as error:
        message = str(error)
    assert (path.read_bytes() == before) == bool(message)
    read(path)
    assert not list(path.parent.glob(".*.part"))
    return message


@pytest.mark.parametrize("name", KINDS)
def test_files_that_may_not_grow_leave_the_old_one(tmp_path: Path, name: str) -> None:
    path, messages = tmp_path / name, []
    for size in SIZES:
        KINDS[name][0](path, 0)
        with files_of_at_most(size):
            messages.append(refusal(name, path))
    assert messages[0]
    assert not messages[-1]
    for message in filter(None, messages):
        assert name in message or "work" in message
        for part in ("File too large", "ulimit -f"):
            assert part in message


def main(folder: Path) -> None:
    """Every kind on disks of growing size: what each is told, a line for each."""
    for name in KINDS:
        path, told = folder / name, []
        for pages in range(1, 13):
            resize(folder, 1 << 20)
            KINDS[name][0](path, 0)
            resize(folder, (-(-path.stat().st_size // 4096) + pages) * 4096)
            message = refusal(name, path)
            for part in ("bytes needed", "free in", "free some space") if message else ():
                assert part in message, message
            told.append("refused" if message else "whole")
            path.unlink()
            shutil.rmtree(folder / "work", ignore_errors=True)
        print(name, *told)


@pytest.mark.skipif(not small_disks(), reason="no right to mount a file system")
def test_a_full_disk_leaves_the_old_file_and_is_named(tmp_path: Path) -> None:
    code, output = on_small_disk(tmp_path, Path(__file__))
    assert code == 0, output
    told = {name: words for name, *words in map(str.split, output.splitlines())}
    assert told.keys() == KINDS.keys()
    for name, words in told.items():
        assert words[0] == "refused", (name, words)
        assert words[-1] == "whole"
        assert words == sorted(words)
