"""A detector's file: written and read back, and refused when it cannot be right."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from models.detector.file import (
    describe,
    is_detector_file,
    read_detector,
    read_names,
    write_detector,
)
from models.detector.fpn import build_detector
from pipeline.runtime.errors import WorkbenchError

SIZES = {"channels": 8, "hidden": 8, "layers": 1, "anchors": [[12.0]], "proposals": 5}


@pytest.fixture
def written(tmp_path):
    torch.manual_seed(0)
    network = build_detector("fpn_resnet18", ["a", "b"], ["red"], **SIZES).eval()
    description = describe(network, "trained", {"seed": 0}, {"images": "f"}, {"recall": 0.5})
    write_detector(tmp_path / "d.safetensors", network, description)
    return tmp_path / "d.safetensors", network, description


def test_written_and_read_back(written):
    path, network, description = written
    assert is_detector_file(path)
    found, weights = read_detector(path)
    assert found.object_names == ("a", "b")
    assert found.model_dump(mode="json") == description.model_dump(mode="json")
    assert all(torch.equal(weights[name], v) for name, v in network.state_dict().items())


def test_damaged_and_foreign_files_are_refused(written, tmp_path):
    path, network, description = written
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    (tmp_path / "flipped.safetensors").write_bytes(content)
    save_file(load_file(path), tmp_path / "bare.safetensors")
    wrong = description.model_copy(update={"origin": "found"})
    write_detector(tmp_path / "wrong.safetensors", network, wrong)
    for name, words in {
        "flipped": "sha256",
        "bare": "no metadata",
        "wrong": "metadata is wrong in: origin",
        "none": "no such",
    }.items():
        with pytest.raises(WorkbenchError, match=words):
            read_detector(tmp_path / f"{name}.safetensors")
    assert not is_detector_file(tmp_path / "bare.safetensors")


def test_names_must_be_as_many_as_the_weights_know(tmp_path):
    (tmp_path / "objects.txt").write_text("a\nb,c\n")
    assert read_names(tmp_path, 2, 0) == (["a", "b"], [])
    assert read_names(None, 1, 2) == (["class 1"], ["attribute 1", "attribute 2"])
    with pytest.raises(WorkbenchError, match=r"objects\.txt: 2 lines, .* 3 names"):
        read_names(tmp_path, 3, 0)
    with pytest.raises(WorkbenchError, match=r"attributes\.txt: not readable"):
        read_names(tmp_path, 2, 1)


def test_the_metadata_is_one_entry_without_paths(written):
    path, *_ = written
    size = int.from_bytes(path.read_bytes()[:8], "little")
    header = json.loads(path.read_bytes()[8 : 8 + size])
    assert list(header["__metadata__"]) == ["vse_workbench"]
