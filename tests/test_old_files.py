"""Files that earlier versions wrote: this version reads the same values, or refuses them by their
version, with a way out."""

import json
from pathlib import Path
from typing import Any

import h5py
import pytest
from corpora import ROOT
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from pipeline.features.weights import KEY
from pipeline.runtime.errors import WorkbenchError
from tests.old_files.reading import READERS, laid_out, read

FOLDER = ROOT / "tests/old_files"
VERSIONS = sorted(path.name for path in FOLDER.iterdir() if (path / "values.json").is_file())
LARGEST = 300_000  # bytes of all files of a version


@pytest.fixture(scope="module", params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def world(version: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("old") / version
    laid_out(FOLDER / version, folder)
    return folder


@pytest.mark.parametrize("kind", READERS)
def test_an_old_file_has_its_values_or_is_refused(world: Path, version: str, kind: str) -> None:
    if kind == "index":
        pytest.importorskip("faiss", reason="the extra `search` is not installed")
    expected = json.loads((FOLDER / version / "values.json").read_text(encoding="utf-8"))
    found, refusal = opened(kind, world)
    if refusal is None:
        now = json.loads(json.dumps(found))
        assert (said_before(now, expected[kind]) if kind == "params.yaml" else now) == expected[
            kind
        ]
    else:
        assert "version" in refusal.message
        assert refusal.hint


def said_before(now: Any, before: Any) -> Any:
    """Of today's parameters those that an old file says; newer keys have their defaults."""
    if not isinstance(before, dict):
        return now
    return {key: said_before(now[key], value) for key, value in before.items()}


def opened(kind: str, world: Path) -> tuple[Any, WorkbenchError | None]:
    try:
        return read(kind, world), None
    except WorkbenchError as refusal:
        return None, refusal


def test_there_are_few_bytes_of_a_version(version: str) -> None:
    files = [path for path in (FOLDER / version).rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < LARGEST


# by kind a file that names the version of its form, and the key that does
NAMED = {
    "features": ("data/features/image.h5", "schema_version"),
    "vocabulary": ("data/vocabulary/vocabulary.json", "schema_version"),
    "checkpoint": ("data/checkpoints/vse.safetensors", "schema_version"),
    "scores": ("data/scores/vse.h5", "schema_version"),
    "ranks": ("data/ranks/vse.h5", "schema_version"),
    "index": ("data/indexes/vse/index.json", "format"),
    "export": ("exported/config.json", "format"),
}


@pytest.mark.parametrize("kind", NAMED)
def test_a_file_of_a_later_version_is_refused_by_its_version(tmp_path: Path, kind: str) -> None:
    """This version's own file stands for a later one's, which only its writer could make."""
    folder = tmp_path / "world"
    laid_out(FOLDER / VERSIONS[-1], folder)
    name, key = NAMED[kind]
    renumber(folder / name, key)
    with pytest.raises(WorkbenchError) as refused:
        read(kind, folder)
    assert f"{key} 99; this version reads 1" in refused.value.message
    assert "damaged" not in refused.value.message
    assert refused.value.hint


def renumber(path: Path, key: str) -> None:
    """Make a file one of version 99, all else as it is."""
    if path.suffix == ".h5":
        with h5py.File(path, "r+") as file:
            file.attrs[key] = 99
    elif path.suffix == ".json":
        content = json.loads(path.read_text(encoding="utf-8"))
        path.write_text(json.dumps(content | {key: 99}), encoding="utf-8")
    else:
        with safe_open(path, framework="pt") as file:
            entry = json.loads(file.metadata()[KEY])
        save_file(load_file(path), path, {KEY: json.dumps(entry | {key: 99})})
