"""The stage from images and a detector to regions.h5: repeatable, and plain about faults."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner, Result
from corpora import change_params, write_corpus
from PIL import Image
from region_cases import captions_of, world

from models.backbone.network import weights_digest
from models.detector.file import DetectorDescription, write_detector
from models.detector.fpn import build_detector
from pipeline.corpus.tables import images_digest, load_images
from pipeline.inputs.regions import open_regions
from stages.extract_region_features import main

ROOT = Path(__file__).resolve().parents[2]
OBJECTS, ATTRIBUTES = ("circle", "star"), ("red", "green", "blue")
SIZES = {"channels": 8, "hidden": 12}


@pytest.fixture
def network(tmp_path: Path, monkeypatch) -> torch.nn.Module:
    """A folder with a corpus, a small random detector in a file, and params.yaml."""
    monkeypatch.chdir(tmp_path)
    images = world(Path("pictures"))
    write_corpus(Path("corpus"), images, captions_of(images))
    torch.manual_seed(0)
    made = build_detector("fpn_resnet18", OBJECTS, ATTRIBUTES, **SIZES).eval()
    description = DetectorDescription(
        architecture="fpn_resnet18",
        sizes=SIZES,
        object_names=OBJECTS,
        attribute_names=ATTRIBUTES,
        origin="random",
        params={},
        inputs={},
        validation={},
    )
    write_detector("detector.safetensors", made, description)
    change(boxes=3, batch_size=5, workers=0)
    return made


def change(**values: object) -> None:
    """Set keys of the section regions in ./params.yaml."""
    change_params(Path(), regions=values)


def extract(output: str = "regions.h5", *more: str) -> Result:
    arguments = ["--images", "corpus/images.parquet", "--output", output]
    return CliRunner().invoke(main, [*arguments, *(more or ("--detector", "detector.safetensors"))])


def test_the_file_and_what_it_says_of_itself(network) -> None:
    result = extract()
    assert result.exit_code == 0, result.output
    file = open_regions(Path("regions.h5"))
    assert file.shape() == (12, 3, 12)
    images = load_images(Path("corpus/images.parquet"))
    assert file.attributes["corpus_sha256"] == images_digest(images)
    assert file.attributes["weights_sha256"] == weights_digest(network)
    assert (file.attributes["model"], file.attributes["layer"]) == ("fpn_resnet18", "box_head")
    assert json.loads(file.attributes["object_names"]) == list(OBJECTS)
    assert json.loads(file.attributes["attribute_names"]) == list(ATTRIBUTES)
    params = json.loads(file.attributes["params"])
    assert params["boxes"] == 3
    assert not {"workers", "path"} & params.keys()
    pixels = torch.from_numpy(np.array(Image.open(images["path"][7]))).permute(2, 0, 1)
    proposals = network.regions([pixels])[0]
    for region in range(file.read([7], "counts")[0]):
        box = file.read([7], "boxes")[0, region]
        near = np.abs(proposals.boxes.numpy() - box).max(1).argmin()
        np.testing.assert_allclose(proposals.boxes[near], box, atol=1e-3)
        np.testing.assert_allclose(
            file.read([7])[0, region], proposals.features[near], rtol=2e-3, atol=2e-3
        )


def test_the_same_bytes_with_workers_and_adaptive_numbers(network) -> None:
    change(boxes="adaptive", min=1, max=6, threshold=0.3)
    assert extract("one.h5").exit_code == 0
    change(workers=1)
    assert extract("two.h5").exit_code == 0
    assert Path("one.h5").read_bytes() == Path("two.h5").read_bytes()
    assert open_regions(Path("one.h5")).shape() == (12, 6, 12)


def test_faults_are_said_plainly(network) -> None:
    result = extract("regions.h5", "--captions", "corpus/captions.parquet")
    assert result.exit_code == 1
    assert "--detector" in result.stderr
    Path("detector.safetensors").write_bytes(b"junk")
    result = extract()
    assert result.exit_code == 1
    assert "detector.safetensors" in result.stderr
    assert not Path("regions.h5").exists()
