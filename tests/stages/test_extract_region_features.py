"""The stage from images and a detector to regions.h5: repeatable, and plain about faults."""

import json
from pathlib import Path

import numpy as np
import pytest
import timm
import torch
from click.testing import CliRunner, Result
from corpora import change_params, write_corpus
from PIL import Image
from pretended_cuda import on_pretended_gpu
from region_cases import captions_of, world
from timm.data import resolve_model_data_config

from models.backbone.network import weights_digest
from models.detector.file import DetectorDescription, write_detector
from models.detector.fpn import build_detector
from pipeline.corpus.tables import images_digest, load_images
from pipeline.inputs.regions import open_regions
from stages.extract_region_features import main
from vse_workbench.commands.inspect import main as inspect_features

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
    change(workers=0)
    with on_pretended_gpu(Path()):
        assert extract("gpu.h5").exit_code == 0
    assert Path("one.h5").read_bytes() == Path("gpu.h5").read_bytes()
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


NETWORK = {"model": "timm/test_resnet", "weights": "random", "layers": None, "size": 96}


def test_cells_of_a_grid_need_no_detector(network) -> None:
    change(source="grid", grid=[2, 3], network=NETWORK)
    result = extract("regions.h5", "--captions", "corpus/captions.parquet")
    assert result.exit_code == 0, result.output
    file = open_regions(Path("regions.h5"))
    assert file.shape() == (12, 6, 96)
    assert (file.attributes["model"], file.attributes["layer"]) == ("timm/test_resnet", "map")
    params = json.loads(file.attributes["params"])
    assert params["grid"] == [2, 3]
    assert (params["network"]["layers"], params["network"]["seed"]) == (["map"], 0)
    assert not {"workers", "path", "boxes", "threshold"} & params.keys()
    images = load_images(Path("corpus/images.parquet"))
    whole = timm_network("test_resnet")
    config = resolve_model_data_config(whole)
    mean, std = (torch.tensor(config[name]).view(3, 1, 1) for name in ("mean", "std"))
    for row in (0, 7):
        image = Image.open(images["path"][row]).convert("RGB")
        square = np.asarray(image.resize((96, 96), Image.Resampling.BILINEAR))
        pixels = torch.from_numpy(square.transpose(2, 0, 1) / 255).float()[None]
        with torch.inference_mode():
            maps = whole.forward_features((pixels - mean) / std)  # of 3 x 3 places
        cells = torch.nn.functional.adaptive_avg_pool2d(maps, (2, 3)).flatten(2)[0].T
        np.testing.assert_allclose(file.read([row])[0], cells, rtol=3e-3, atol=3e-3)
        width, height = image.size
        np.testing.assert_array_equal(file.read([row], "sizes")[0], image.size)
        expected = [width / 3, height / 3, width * 2 / 3, height]  # two rows of three share one
        np.testing.assert_allclose(file.read([row], "boxes")[0][4], expected, rtol=1e-6)
        assert file.read([row], "counts")[0] == 6
    assert (file.read([0], "objects") == -1).all()


def timm_network(name: str) -> torch.nn.Module:
    torch.manual_seed(0)
    made: torch.nn.Module = timm.create_model(name)
    return made.eval()


def test_a_grid_has_the_same_bytes_with_workers_and_near_ones_in_bfloat16(network) -> None:
    change(source="grid", grid=[2, 2], network=NETWORK)
    assert extract("one.h5").exit_code == 0
    change(workers=1)
    assert extract("two.h5").exit_code == 0
    assert Path("one.h5").read_bytes() == Path("two.h5").read_bytes()
    change(network={"precision": "bf16"})
    assert extract("near.h5").exit_code == 0
    one, near = (open_regions(Path(name)).read(range(12)) for name in ("one.h5", "near.h5"))
    assert not np.array_equal(one, near)
    assert np.abs(one.astype(float) - near).max() < 0.05 * np.abs(one).max()


def test_a_grid_of_the_detector_s_resnet(network) -> None:
    change(source="grid", grid=[2, 2], network={"layers": ["layer3"], "size": 64})
    assert extract().exit_code == 0
    assert open_regions(Path("regions.h5")).shape() == (12, 4, 256)
    change(network={"layers": None})
    result = extract()
    assert result.exit_code == 1
    assert "regions.network: the state dict does not fit" in result.stderr


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"network": {"layers": ["features"]}}, "gives a vector per image, regions are cells"),
        ({"network": {"layers": ["layer9"]}}, "no layer 'layer9'"),
        ({"grid": [9, 2]}, "lower regions.grid"),
        ({"grid": [40, 40]}, "1,600 cells; allowed are at most 1,000"),
        ({"path": "pictures"}, "must be null when source is 'grid'"),
        ({"network": {"weights": "detector"}}, "does not hold a 'timm/test_resnet'"),
        ({"network": {"weights": "lost.pt"}}, "no such file"),
        (
            {"network": {"weights": "imagenet", "normalisation": "caffe"}},
            "regions.network.weights = 'imagenet' learnt from its own",
        ),
    ],
)
def test_grids_that_cannot_be(network, values, words: str) -> None:
    change(source="grid", grid=[2, 2], network=NETWORK)
    change(**values)
    result = extract()
    assert result.exit_code == 1
    assert words in result.stderr
    assert not Path("regions.h5").exists()


def test_the_picture_shows_the_cells(network) -> None:
    change(source="grid", grid=[2, 2], network=NETWORK)
    assert extract().exit_code == 0
    arguments = ["regions.h5", "--id", "test0.png", "--picture", "out.png"]
    arguments += ["--images", "corpus/images.parquet"]
    result = CliRunner().invoke(inspect_features, arguments)
    assert result.exit_code == 0, result.output
    assert Image.open("out.png").width > 900
