"""Detectors from files: our own, torchvision's and the two conversions of bottom-up attention."""

import numpy as np
import pytest
import torch
from c4_cases import small
from commands import succeed
from corpora import ROOT, change_params, write_corpus
from region_cases import captions_of, world
from ruamel.yaml import YAML
from safetensors.torch import load_file, save_file
from torchvision.models.detection import fasterrcnn_resnet50_fpn

from models.detector.file import (
    describe,
    is_detector_file,
    read_detector,
    read_names,
    write_detector,
)
from models.detector.fpn import build_detector
from models.detector.initial import detector_of_file
from models.detector.params import DetectorConfig
from models.detector.weights import CLASSES, load_detector
from pipeline.features.data import ImageRegions
from pipeline.runtime.errors import WorkbenchError
from stages import extract_region_features, train_detector

SIZES = {"channels": 8, "hidden": 8, "layers": 1, "anchors": [[12.0]], "proposals": 5}


def settings(path, architecture="fpn_resnet50", names=None):
    """The section of the repository's params.yaml with another file."""
    change = {"weights": str(path), "architecture": architecture, "names": names}
    return DetectorConfig.model_validate(
        YAML(typ="safe").load((ROOT / "params.yaml").read_text())["detector"] | change
    )


@pytest.fixture
def written(tmp_path):
    torch.manual_seed(0)
    network = build_detector("fpn_resnet18", ["a", "b"], ["red"], **SIZES).eval()
    description = describe(network, "trained", {"seed": 0}, {"images": "f"}, {"recall": 0.5})
    write_detector(tmp_path / "d.safetensors", network, description)
    return tmp_path / "d.safetensors", network, description


def test_a_file_gives_back_its_network(written, tmp_path):
    path, network, _ = written
    loaded, description = load_detector(path)
    image = torch.randint(0, 256, (3, 32, 32), dtype=torch.uint8)
    for one, two in zip(network.regions([image])[0], loaded.regions([image])[0], strict=True):
        assert torch.equal(one, two)
    write_detector(tmp_path / "again.safetensors", loaded, description)
    assert (tmp_path / "again.safetensors").read_bytes() == path.read_bytes()


def test_damaged_and_foreign_files_are_refused(written, tmp_path):
    path, network, description = written
    assert is_detector_file(path)
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    (tmp_path / "flipped.safetensors").write_bytes(content)
    save_file(load_file(path), tmp_path / "bare.safetensors")
    assert not is_detector_file(tmp_path / "bare.safetensors")
    wrong = description.model_copy(update={"origin": "found"})
    write_detector(tmp_path / "wrong.safetensors", network, wrong)
    words = {
        "flipped": "sha256",
        "bare": "no metadata",
        "wrong": "wrong in: origin",
        "none": "no such",
    }
    for name, problem in words.items():
        with pytest.raises(WorkbenchError, match=problem):
            read_detector(tmp_path / f"{name}.safetensors")


def test_names_must_be_as_many_as_the_weights_know(tmp_path):
    (tmp_path / "objects.txt").write_text("a\nb,c\n")
    assert read_names(tmp_path, 2, 0) == (["a", "b"], [])
    assert read_names(None, 1, 2) == (["class 1"], ["attribute 1", "attribute 2"])
    with pytest.raises(WorkbenchError, match=r"objects\.txt: 2 lines, .* 3 names"):
        read_names(tmp_path, 3, 0)
    with pytest.raises(WorkbenchError, match=r"attributes\.txt: not readable"):
        read_names(tmp_path, 2, 1)


def test_one_of_our_own_files_keeps_its_sizes(written):
    path, *_ = written
    taken, description = detector_of_file(settings(path, "fpn_resnet18"))
    assert description.origin == "file"
    assert description.validation == {"recall": 0.5}
    assert str(path) not in description.model_dump_json()
    assert taken.sizes.layers == 1
    with pytest.raises(WorkbenchError, match=r"holds a fpn_resnet18, .* = fpn_resnet50"):
        detector_of_file(settings(path))


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ({"hidden": 10**9}, "of another shape"),
        ({"strange": 1}, "strange"),
        ({"layers": 3}, "missing"),
    ],
)
def test_sizes_that_do_not_fit_are_told_before_memory_is_taken(written, tmp_path, sizes, words):
    _, network, description = written
    wrong = description.model_copy(update={"sizes": description.sizes | sizes})
    write_detector(tmp_path / "wrong.safetensors", network, wrong)
    with pytest.raises(WorkbenchError, match=words):
        load_detector(tmp_path / "wrong.safetensors")


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """torchvision's detector with all of its real names and shapes."""
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("published") / "coco.pth"
    torch.save(fasterrcnn_resnet50_fpn(weights=None, weights_backbone=None).state_dict(), path)
    return path


def test_torchvisions_weights_are_taken_with_names(published, tmp_path):
    network, description = detector_of_file(settings(published))
    assert network.object_names[16] == "class 17"
    assert (len(network.object_names), network.attribute_names) == (90, ())
    assert description.sizes["hidden"] == network.region_dim == 1024
    assert list(description.inputs) == ["weights_sha256"]
    (tmp_path / "objects.txt").write_text("".join(f"thing {i},other\n" for i in range(90)))
    named, _ = detector_of_file(settings(published, names=str(tmp_path)))
    assert named.object_names[1] == "thing 1"


def test_a_prefix_of_all_names_is_taken_away(published, tmp_path, capsys):
    state = torch.load(published, weights_only=True)
    torch.save({f"module.{name}": value for name, value in state.items()}, tmp_path / "w.pth")
    network, _ = detector_of_file(settings(tmp_path / "w.pth"))
    assert torch.equal(network.state_dict()[CLASSES], state[CLASSES])
    assert "the names begin with 'module.', which is taken away" in capsys.readouterr().err


def test_weights_that_do_not_fit_are_named(published, tmp_path):
    state = torch.load(published, weights_only=True)
    state["strange"] = state.pop("rpn.head.bbox_pred.weight")
    torch.save(state, tmp_path / "renamed.pth")
    with pytest.raises(WorkbenchError) as caught:
        detector_of_file(settings(tmp_path / "renamed.pth"))
    assert "missing: rpn.head.bbox_pred.weight" in str(caught.value)
    assert "unexpected: strange" in str(caught.value)
    torch.save({"a": torch.ones(1)}, tmp_path / "no.pth")
    with pytest.raises(WorkbenchError, match=r"no weights of a detector.*cls_score\.weight"):
        detector_of_file(settings(tmp_path / "no.pth"))


@pytest.fixture
def folder(tmp_path):
    """A corpus of two pictures, narrow bottom-up weights, and names."""
    (tmp_path / "pictures").mkdir()
    images = world(tmp_path / "pictures").iloc[[0, 6]].reset_index(drop=True)
    write_corpus(tmp_path / "corpus", images, captions_of(images))
    torch.save({"model": small().state_dict(), "iteration": 1}, tmp_path / "bottom_up.pth")
    (tmp_path / "objects.txt").write_text("cat\ndog,puppy\ncow\ncar\nbus\n")
    (tmp_path / "attributes.txt").write_text("red\nbig\nold\nwet\n")
    change_params(
        tmp_path,
        detector={"architecture": "c4_resnet101", "weights": "bottom_up.pth", "names": "."},
        image_features__weights="random",
        regions={"boxes": 4, "workers": 0, "batch_size": 2},
    )
    return tmp_path


def test_bottom_up_weights_become_regions(folder):
    """Through both stages; test_c4_weights.py has the other conversion of the weights."""
    corpus = ["--images", "corpus/images.parquet"]
    made = ["--boxes", "corpus/boxes.parquet", "--output", "d.safetensors", "--curve", "curve.tsv"]
    succeed(train_detector.main, folder, *corpus, *made)
    description, _ = read_detector(folder / "d.safetensors")
    assert (description.architecture, description.origin) == ("c4_resnet101", "file")
    assert description.object_names == ("cat", "dog", "cow", "car", "bus")
    assert description.sizes["width"] == 4
    used = ["--detector", "d.safetensors", "--output", "regions.h5"]
    succeed(extract_region_features.main, folder, *corpus, *used)
    found = ImageRegions(folder / "regions.h5").file
    assert found.shape() == (2, 4, 128)
    assert found.attributes["layer"] == "res5"
    assert found.load("counts").min() > 0
    assert np.abs(found.load()).max() > 0
    assert found.load("objects").max() < 5
