"""Checkpoints: equal bytes in every process, strict loading, and damage at many places."""

import pytest
import torch
from commands import refusal
from safetensors.torch import save_file

from models.vse import VSE, VSEConfig
from pipeline.features.checkpoint import Description, read_checkpoint, write_checkpoint
from pipeline.features.split import Words
from pipeline.features.weights import KEY, write_weights
from pipeline.runtime.errors import WorkbenchError

SIZES = {"image_dim": 6, "vocabulary_size": 8, "word_dim": 4, "hidden": 5, "dim": 7}


def describe(**changes):
    values = {"model": "vse", "architecture": SIZES, "params": {"loss": "max_margin", "seed": 0}}
    values |= {"inputs": {"vocabulary_sha256": "a" * 64}, "epoch": 3, "val_rsum": 217.25}
    return Description(**values | changes)


@pytest.fixture
def model():
    torch.manual_seed(0)
    return build(**SIZES)


def build(image_dim, vocabulary_size, **settings):
    """The network of an architecture."""
    return VSE(VSEConfig(**settings), image_dim, vocabulary_size)


@pytest.fixture
def path(model, tmp_path):
    write_checkpoint(tmp_path / "vse.safetensors", model.state_dict(), describe())
    return tmp_path / "vse.safetensors"


def test_comes_back_whole(model, path):
    checkpoint = read_checkpoint(path, "vse")
    assert checkpoint.description == describe()
    loaded = checkpoint.build(build)
    assert not loaded.training
    images = torch.rand(3, 6)
    words = Words(torch.tensor([[2, 3], [4, 0], [5, 6]]), torch.tensor([2, 1, 2]))
    for network in (loaded, model.eval()):
        assert torch.equal(network.embed_images(images), model.embed_images(images))
        assert torch.equal(network.embed_captions(words), model.embed_captions(words))


def test_the_same_content_gives_the_same_bytes(model, path):
    """safetensors orders several metadata entries anew in every file it writes."""
    for number in range(10):
        again = path.with_name(f"again-{number}")
        weights = dict(sorted(model.state_dict().items(), key=lambda item: hash(item[0])))
        write_checkpoint(again, weights, describe())
        assert again.read_bytes() == path.read_bytes()


def test_other_files_are_refused(tmp_path, model):
    path = tmp_path / "x.safetensors"
    assert "no such checkpoint" in refusal(read_checkpoint, path, "vse")
    weights = dict(model.state_dict())
    for metadata, words in (
        (None, "no metadata"),
        ({KEY: "[1]"}, "no metadata"),
        ({KEY: "{"}, "damaged or foreign"),
        ({KEY: '{"schema_version": 9}'}, "schema_version 9; this version reads 1"),
        ({KEY: describe().model_dump_json()}, "does not match its sha256"),
        ({KEY: "[" * 100_000}, "damaged or foreign"),
    ):
        save_file(weights, path, metadata)
        with pytest.raises(WorkbenchError, match=words):
            read_checkpoint(path, "vse")
    path.write_bytes(b"PK\x03\x04 a pickle in a zip")
    assert "damaged or foreign" in refusal(read_checkpoint, path, "vse")
    write_weights(path, weights, {"schema_version": 1, "model": 3})
    assert "metadata is wrong in: model" in refusal(read_checkpoint, path, "vse")


def test_another_model_is_named(path):
    assert "weights of the model 'vse', not of 'scan'" in refusal(read_checkpoint, path, "scan")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda w: w.pop("image_projection.bias"), r"Missing key\(s\).*image_projection\.bias"),
        (lambda w: w["image_projection.bias"].fill_(torch.nan), "NaN or infinity in image_proj"),
    ],
)
def test_weights_must_fit_exactly(tmp_path, model, change, words):
    weights = dict(model.state_dict())
    change(weights)
    write_checkpoint(tmp_path / "x", weights, describe())
    with pytest.raises(WorkbenchError, match=words):
        read_checkpoint(tmp_path / "x", "vse").build(build)


@pytest.mark.parametrize(
    "sizes", [SIZES | {"hidden": 2**40}, SIZES | {"hidden": -1}, SIZES | {"layers": 2}]
)
def test_impossible_sizes_cost_no_memory(tmp_path, model, sizes):
    write_checkpoint(tmp_path / "x", model.state_dict(), describe(architecture=sizes))
    assert "damaged or foreign" in refusal(read_checkpoint(tmp_path / "x", "vse").build, build)
