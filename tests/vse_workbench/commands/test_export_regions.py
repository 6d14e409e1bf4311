"""From our file to another tool's and back through both stages: the same values."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from corpora import change_params, write_corpus
from region_cases import WIDTH, captions_of, sample, world

from pipeline.corpus.tables import Corpus, load_boxes, load_captions, load_images
from pipeline.regions.file import packed
from pipeline.storage.features import FeatureFile, write_features
from stages import extract_region_features
from vse_workbench.commands import export_regions

ROOT = Path(__file__).resolve().parents[3]
SLOTS = 4
REJECTS = ["file", "reason"]


@pytest.fixture
def repository(tmp_path: Path, monkeypatch) -> Path:
    """A folder with a corpus, a file of regions and dvc.yaml."""
    monkeypatch.chdir(tmp_path)
    images = world(Path("pictures"))
    write_corpus(Path("corpus"), images, captions_of(images))
    arrays = packed(sample(images), SLOTS, WIDTH)
    arrays["features"] = arrays["features"].astype(np.float16)
    write_features("r.h5", images["image_id"].tolist(), arrays, {"has_boxes": 1})
    command = "python -m x --images corpus/images.parquet --captions corpus/captions.parquet"
    Path("dvc.yaml").write_text(f"stages: {{extract_region_features: {{cmd: {command}}}}}")
    return tmp_path


def set_regions(**changes) -> None:
    change_params(
        Path(), regions={"boxes": "adaptive", "min": 1, "max": 10, "workers": 0} | changes
    )


@pytest.mark.parametrize("kind", ["scan_npy", "tsv"])
def test_there_and_back_gives_the_same_values(repository: Path, kind: str) -> None:
    arguments = ["r.h5", "--format", kind, "--output", "exported"]
    result = CliRunner().invoke(export_regions.main, arguments)
    assert result.exit_code == 0, result.output
    set_regions(source=kind, path="exported")
    arguments = ["--images", "corpus/images.parquet", "--output", "back.h5"]
    result = CliRunner().invoke(extract_region_features.main, arguments)
    assert result.exit_code == 0, result.output
    old, new = FeatureFile("r.h5"), FeatureFile("back.h5")
    assert old.ids == new.ids
    same = ["features", "counts", "sizes", "objects"] + (["boxes"] if kind == "tsv" else [])
    for name in same:
        assert old.load(name).tobytes() == new.load(name).tobytes(), name
    assert new.attributes["has_boxes"] == int(kind == "tsv")
    assert new.attributes["model"] == f"imported from {kind}"
    assert str(repository).encode() not in Path("back.h5").read_bytes()


def test_images_that_only_the_files_have_are_left_out_on_request(repository: Path) -> None:
    arguments = ["r.h5", "--format", "tsv", "--output", "exported"]
    assert CliRunner().invoke(export_regions.main, arguments).exit_code == 0
    images = load_images(Path("corpus/images.parquet"))
    captions = load_captions(Path("corpus/captions.parquet"))
    boxes, rejects = load_boxes(Path("corpus/boxes.parquet")), pd.DataFrame(columns=REJECTS)
    some = images.drop(index=[1, 8])
    captions = captions[captions["image_id"].isin(some["image_id"])]
    Corpus(some, captions, boxes, rejects).write(Path("some"))
    arguments = ["--images", "some/images.parquet", "--output", "back.h5"]
    set_regions(source="tsv", path="exported")
    result = CliRunner().invoke(extract_region_features.main, arguments)
    assert result.exit_code == 1
    assert "regions.other_images = skip" in result.stderr
    set_regions(source="tsv", path="exported", other_images="skip")
    result = CliRunner().invoke(extract_region_features.main, arguments)
    assert result.exit_code == 0, result.output
    assert "left out 2 images" in result.stderr
    old, new = FeatureFile("r.h5"), FeatureFile("back.h5")
    kept = [0, *range(2, 8), *range(9, 12)]
    assert new.ids == [old.ids[row] for row in kept]
    assert new.load().tobytes() == old.load()[kept].tobytes()


def test_wrong_requests_are_said_plainly(repository: Path) -> None:
    Path("dvc.yaml").unlink()
    for arguments, words in (
        (["r.h5", "--format", "scan_npy", "--output", "o"], "dvc.yaml"),
        (["corpus/images.parquet", "--format", "tsv", "--output", "o"], "not an HDF5 file"),
    ):
        result = CliRunner().invoke(export_regions.main, arguments)
        assert result.exit_code == 1
        assert words in result.stderr
    set_regions(source="tsv", path=None)
    arguments = ["--images", "corpus/images.parquet", "--output", "back.h5"]
    result = CliRunner().invoke(extract_region_features.main, arguments)
    assert result.exit_code == 1
    assert "regions.path" in result.stderr
