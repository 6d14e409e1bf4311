"""Folders that stand for the files of all models, and what is left in them of others."""

import pytest

from pipeline.evaluation.comparison import files_of_models, metrics_files
from pipeline.runtime.errors import WorkbenchError


@pytest.fixture
def folder(tmp_path):
    for name in ("vse.json", "scan.json", "notes.txt", "vse.tsv", "detector.tsv"):
        (tmp_path / name).write_text("")
    return tmp_path


def test_a_folder_stands_for_the_files_of_its_models(folder):
    files = [folder / "scan.json", folder / "vse.json"]
    assert metrics_files([folder], ["scan", "vse"]) == tuple(files)
    assert metrics_files([folder / "vse.json"], []) == (folder / "vse.json",)
    assert files_of_models([folder], ["scan", "vse"], ".tsv") == (folder / "vse.tsv",)
    assert files_of_models([folder / "other.tsv"], ["scan"], ".tsv") == (folder / "other.tsv",)


def test_what_is_left_of_a_model_is_refused_by_name(folder):
    with pytest.raises(WorkbenchError, match="evaluates cca, vse alone") as found:
        metrics_files([folder], ["cca", "vse"])
    assert "vse.json" not in found.value.message
    assert "delete" in found.value.hint
