"""From our file to another tool's and back through both stages: the same values."""

from pathlib import Path

import numpy as np
import pytest
from commands import fail, succeed
from corpora import change_params, write_corpus
from region_cases import WIDTH, captions_of, sample, world

from pipeline.features.feature_file import FeatureFile, write_features
from pipeline.features.regions.file import pad_regions
from stages.extract_region_features import main as extract
from vse_workbench.commands.export_regions import main

BACK = "--images", "corpus/images.parquet", "--output", "back.h5"


@pytest.fixture
def repository(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    images = world(Path("pictures"))
    write_corpus(Path("corpus"), images, captions_of(images))
    arrays = pad_regions(sample(images), 4, WIDTH)
    arrays["features"] = arrays["features"].astype(np.float16)
    write_features("r.h5", images["image_id"].tolist(), arrays, {"has_boxes": 1})
    command = "python -m x --images corpus/images.parquet --captions corpus/captions.parquet"
    Path("dvc.yaml").write_text(f"stages: {{extract_region_features: {{cmd: {command}}}}}")
    return tmp_path


def set_regions(**changes):
    given = {"boxes": "adaptive", "min": 1, "max": 10, "workers": 0, "path": "exported"}
    change_params(Path(), regions=given | changes)


@pytest.mark.parametrize("kind", ["scan_npy", "tsv"])
def test_there_and_back_gives_the_same_values(repository, kind):
    succeed(main, repository, "r.h5", "--format", kind, "--output", "exported")
    set_regions(source=kind)
    succeed(extract, repository, *BACK)
    old, new = FeatureFile("r.h5"), FeatureFile("back.h5")
    assert old.ids == new.ids
    same = ["features", "counts", "sizes", "objects"] + (["boxes"] if kind == "tsv" else [])
    for name in same:
        assert old.load(name).tobytes() == new.load(name).tobytes(), name
    assert new.attributes["has_boxes"] == int(kind == "tsv")
    assert new.attributes["model"] == f"imported from {kind}"
    assert str(repository).encode() not in Path("back.h5").read_bytes()


def test_images_that_only_the_file_has_are_left_out_on_request(repository):
    succeed(main, repository, "r.h5", "--format", "tsv", "--output", "exported")
    (exported,) = Path("exported").iterdir()
    lines = exported.read_text()
    exported.write_text(f"{lines}other{lines.splitlines()[0]}\n")
    set_regions(source="tsv")
    assert "regions.other_images = skip" in fail(extract, repository, *BACK)
    set_regions(source="tsv", other_images="skip")
    succeed(extract, repository, *BACK)
    assert FeatureFile("back.h5").load().tobytes() == FeatureFile("r.h5").load().tobytes()


def test_wrong_requests_are_said_plainly(repository):
    Path("dvc.yaml").unlink()
    for file, kind, words in (
        ("r.h5", "scan_npy", "dvc.yaml"),
        ("corpus/images.parquet", "tsv", "a parquet file"),
    ):
        assert words in fail(main, repository, file, "--format", kind, "--output", "o")
    set_regions(source="tsv", path=None)
    assert "regions.path" in fail(extract, repository, *BACK)
