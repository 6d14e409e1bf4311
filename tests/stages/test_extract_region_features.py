"""The stage from images and a detector to regions.h5: repeatable, and plain about faults."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from commands import fail, succeed
from corpora import SHARDS, change_params, write_corpus
from PIL import Image
from pretended_cuda import on_pretended_gpu
from region_cases import captions_of, world

from models.backbone.network import weights_digest
from models.detector.file import describe, write_detector
from models.detector.fpn import build_detector
from pipeline.corpus.tables import images_digest, load_images
from pipeline.features.data import ImageRegions
from stages.extract_region_features import main

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
    write_detector("detector.safetensors", made, describe(made, "random", {}, {}, {}))
    change(boxes=3, batch_size=5, workers=0)
    return made


def change(**values: object) -> None:
    change_params(Path(), regions=values)


def arguments(output: str, *more: str) -> list[str]:
    more = more or ("--detector", "detector.safetensors")
    return ["--images", "corpus/images.parquet", "--output", output, *more]


def extract(output: str = "regions.h5", *more: str) -> str:
    return succeed(main, Path(), *arguments(output, *more))


def refused(*more: str) -> str:
    return fail(main, Path(), *arguments("regions.h5", *more))


def test_the_file_and_what_it_says_of_itself(network) -> None:
    extract()
    file = ImageRegions(Path("regions.h5")).file
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
    extract("one.h5")
    change(workers=1)
    extract("two.h5")
    assert Path("one.h5").read_bytes() == Path("two.h5").read_bytes()
    change(workers=0)
    with on_pretended_gpu(Path()):
        extract("gpu.h5")
    assert Path("one.h5").read_bytes() == Path("gpu.h5").read_bytes()
    assert ImageRegions(Path("one.h5")).file.shape() == (12, 6, 12)


@pytest.mark.slow
def test_shards_change_no_byte(network, run_process) -> None:
    change(batch_size=4)
    extract("whole.h5")
    change_params(Path(), runtime=SHARDS)
    done = run_process("extract_region_features", *arguments("sharded.h5"), cwd=Path())
    assert "3 shards, 0 of them finished before" in done.stderr
    assert Path("sharded.h5").read_bytes() == Path("whole.h5").read_bytes()


def test_faults_are_said_plainly(network) -> None:
    assert "--detector" in refused("--captions", "corpus/captions.parquet")
    Path("detector.safetensors").write_bytes(b"junk")
    assert "detector.safetensors" in refused()
    assert not Path("regions.h5").exists()


NETWORK = {"model": "timm/test_resnet", "weights": "random", "layers": None, "size": 96}


def test_cells_of_a_grid_need_no_detector(network) -> None:
    change(source="grid", grid=[2, 3], network=NETWORK, workers=1)
    extract("regions.h5", "--captions", "corpus/captions.parquet")
    change(workers=0)
    extract("again.h5", "--captions", "corpus/captions.parquet")
    assert Path("regions.h5").read_bytes() == Path("again.h5").read_bytes()
    file = ImageRegions(Path("regions.h5")).file
    assert file.shape() == (12, 6, 96)
    assert (file.attributes["model"], file.attributes["layer"]) == ("timm/test_resnet", "map")
    params = json.loads(file.attributes["params"])
    assert params["grid"] == [2, 3]
    assert (params["network"]["layers"], "seed" in params["network"]) == (["map"], False)
    assert not {"workers", "path", "boxes", "threshold"} & params.keys()
    image = Image.open(load_images(Path("corpus/images.parquet"))["path"][7])
    np.testing.assert_array_equal(file.read([7], "sizes")[0], image.size)
    assert file.read([7], "counts")[0] == 6
    assert (file.read([0], "objects") == -1).all()


def test_a_grid_has_near_values_in_bfloat16(network) -> None:
    change(source="grid", grid=[2, 2], network=NETWORK)
    extract("one.h5")
    change(network={"precision": "bf16"})
    extract("near.h5")
    one, near = (ImageRegions(Path(name)).file.read(range(12)) for name in ("one.h5", "near.h5"))
    assert not np.array_equal(one, near)
    assert np.abs(one.astype(float) - near).max() < 0.05 * np.abs(one).max()


def test_a_grid_of_the_detector_s_resnet(network) -> None:
    change(source="grid", grid=[2, 2], network={"layers": ["layer2"], "size": 64})
    extract()
    assert ImageRegions(Path("regions.h5")).file.shape() == (12, 4, 128)
    change(network={"layers": None})
    assert "regions.network.layers = None: with 2 lists in detector.anchors" in refused()


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"grid": [9, 2]}, "lower regions.grid"),
        ({"grid": [40, 40]}, "1,600 cells; allowed are at most 1,000"),
        ({"network": {"weights": "detector"}}, "does not hold a 'timm/test_resnet'"),
    ],
)
def test_grids_that_cannot_be(network, values, words: str) -> None:
    change(source="grid", grid=[2, 2], network=NETWORK)
    change(**values)
    assert words in refused()
    assert not Path("regions.h5").exists()
