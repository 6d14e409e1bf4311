"""Weights of other programs: prefixes, heads of other classes, whole models, what is no weights."""

import argparse
import shlex
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from commands import refusal
from safetensors.torch import save_file
from torch import Tensor
from torchvision import models as zoo

from models.backbone.extraction import build_network
from models.backbone.network import BackboneError, classifier, cut, weights_digest
from models.backbone.params import ImageFeaturesConfig
from models.backbone.weights import load_weights, read_state_dict
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.first_bytes import kind_of

DETECTOR = Path("none")
State = dict[str, Tensor]


MODEL, HEAD = "squeezenet1_1", "classifier.1."  # a small one


@cache
def published() -> State:
    return classifier(MODEL, 1).state_dict()


def with_head(classes: int) -> State:
    head = {"weight": torch.ones(classes, 512, 1, 1), "bias": torch.ones(classes)}
    return published() | prefixed(HEAD, head)


def without_head() -> State:
    return {name: value for name, value in published().items() if not name.startswith(HEAD)}


def prefixed(prefix: str, state: State) -> State:
    return {prefix + name: value for name, value in state.items()}


def built(path: Path, layers: tuple[str, ...] = ("features.3", "features.6")) -> str:
    """The digest of what features would be made with."""
    settings = ImageFeaturesConfig(model=MODEL, weights=str(path), layers=layers, size=64)
    return weights_digest(build_network(settings, DETECTOR).backbone)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("plain") / "plain.pth"
    torch.save(published(), path)
    return built(path)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (lambda: prefixed("module.", published()), "begin with 'module.', which is taken away"),
        (lambda: prefixed("_orig_mod.module.", published()), "'_orig_mod.module.'"),
        (
            lambda: prefixed("backbone.", without_head()) | {"head.fc.weight": torch.ones(3, 3)},
            "begin with 'backbone.', which is taken away; 1 tensor without it left out",
        ),
        (lambda: prefixed("encoder.", published()) | {"queue": torch.ones(3)}, "'encoder.'"),
        (
            lambda: with_head(365),
            "a head that is not this network's is left out (2 of another shape: "
            "classifier.1.weight (365, 512, 1, 1) for (1000, 512, 1, 1), classifier.1.bias",
        ),
        (without_head, "is left out (2 missing: classifier.1.weight, "),
        (lambda: without_head() | {"head.0.weight": torch.ones(2)}, "1 unexpected: head.0.weight"),
        (lambda: {"epoch": 3, "state_dict": published()}, ""),
        (lambda: {"epoch": 3, "model_state_dict": published()}, "those under 'model_state_dict'"),
        (
            lambda: {"state_dict": published(), "state_dict_ema": without_head()},
            "those under 'state_dict', not those under 'state_dict_ema'",
        ),
        (lambda: {"state_dict": prefixed("module.", with_head(5))}, "'module.'"),
    ],
    ids=[
        "ddp",
        "compiled",
        "mm",
        "encoder",
        "365",
        "none",
        "mlp",
        "nested",
        "named",
        "ema",
        "both",
    ],
)
def test_the_layers_get_the_weights_of_the_file(
    tmp_path: Path, capsys, plain: str, content: Callable[[], Any], said: str
) -> None:
    torch.save(content(), tmp_path / "w.pth")
    assert built(tmp_path / "w.pth") == plain
    assert said in capsys.readouterr().err


def test_a_head_that_is_used_is_an_obstacle(tmp_path: Path) -> None:
    path = tmp_path / "w.pth"
    torch.save(with_head(365), path)
    said = refusal(built, path, ("features.3", "classifier"))
    needed = "need classifier.1.weight, classifier.1.bias, which the weights lack"
    assert f"layers features.3, classifier {needed}" in said
    torch.save(with_head(1000), path)
    assert len(built(path, ("features.3", "classifier"))) == 64


def test_of_a_head_of_two_layers_the_first_may_be_used() -> None:
    """As fc7 of a VGG with other classes; a smaller network."""
    state = zoo.mobilenet_v3_small(weights=None, num_classes=7).state_dict()
    for layer in ("classifier.0", "classifier"):
        network = classifier("mobilenet_v3_small", 0)
        load_weights(network, state)
        if layer == "classifier":
            with pytest.raises(
                BackboneError, match=r"layers classifier need classifier\.3\.weight"
            ):
                cut(network, [layer], "mean", 64)
        else:
            found = cut(network, [layer], "mean", 64)[0].state_dict()["graph.classifier.0.weight"]
            assert torch.equal(found, state["classifier.0.weight"])


def test_a_prefix_is_found_where_names_repeat() -> None:
    """conv1.weight is also the end of names of blocks."""
    state = classifier("resnet18", 1).state_dict()
    network = classifier("resnet18", 0)
    load_weights(network, prefixed("module.", state))
    assert weights_digest(network) == weights_digest(classifier("resnet18", 1))
    with pytest.raises(BackboneError, match=r"1 unexpected: layer1\.9\.conv1\.weight"):
        load_weights(network, state | {"layer1.9.conv1.weight": state["bn1.bias"]})


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (
            lambda: published() | {"features.99.weight": torch.ones(1)},
            ["1 unexpected: features.99.weight"],
        ),
        (
            lambda: without_head() | {"features.0.bias": torch.zeros(1)},
            ["features.0.bias (1,) for"],
        ),
        (lambda: prefixed("other.", {"a.weight": torch.ones(1)}), ["52 missing", "1 unexpected"]),
        (
            lambda: prefixed("student.", published()) | prefixed("teacher.", published()),
            ["several times, under 'student.', 'teacher.'", "k.removeprefix('student.')"],
        ),
    ],
)
def test_other_networks_are_refused(state: Callable[[], State], words: list[str]) -> None:
    with pytest.raises(BackboneError) as error:
        load_weights(classifier(MODEL, 0), state())
    for word in words:
        assert word in str(error.value)


def namespace() -> argparse.Namespace:
    return argparse.Namespace(lr=0.1)


@pytest.mark.parametrize(
    "content",
    [
        lambda model: model,
        lambda model: {
            "epoch": 1,
            "args": namespace(),
            "state_dict": model.state_dict(),
            "callbacks": {"best": namespace()},
        },
        lambda model: {"model": model, "args": namespace()},
    ],
    ids=["whole", "namespace", "inside"],
)
@pytest.mark.parametrize("legacy", [False, True])
def test_the_command_takes_the_tensors_out(tmp_path: Path, content: Any, legacy: bool) -> None:
    model = torch.nn.Linear(3, 2)
    path = tmp_path / "my model.pth"
    torch.save(content(model), path, _use_new_zipfile_serialization=not legacy)
    said = refusal(read_state_dict, path)
    assert said.startswith(f"{path}: not a plain state dict: damaged, or it holds objects other")
    assert legacy or "(argparse.Namespace" in said or "torch.nn.modules.linear.Linear" in said
    program, option, code = shlex.split("python -c" + said.split(": python -c")[1])
    assert (program, option) == ("python", "-c")
    exec(code, {})
    found = read_state_dict(f"{path}.plain.pth")
    assert found.keys() == {"weight", "bias"}
    assert torch.equal(found["weight"], model.weight)


def test_a_program_of_torchscript_is_not_run(tmp_path: Path) -> None:
    path = tmp_path / "ViT-B-32.pt"
    model = torch.nn.Linear(3, 2)
    torch.jit.save(torch.jit.trace(model, torch.ones(1, 3)), str(path))
    said = refusal(read_state_dict, path)
    assert said.startswith(f"{path}: a program of TorchScript, which is code\n")
    exec(shlex.split("python -c" + said.split(": python -c")[1])[2], {})
    assert read_state_dict(f"{path}.plain.pth").keys() == {"weight", "bias"}


def test_the_first_bytes_decide_what_reads_a_file(tmp_path: Path) -> None:
    state = {"a": torch.ones(2)}
    torch.save(state, tmp_path / "w.safetensors")
    save_file(state, tmp_path / "w.bin")
    for name in ("w.safetensors", "w.bin"):
        assert torch.equal(read_state_dict(tmp_path / name)["a"], state["a"])


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:4d\n", "a pointer of git-lfs\n"),
        (b"<!doctype html><html>", "a page of HTML\nthe download failed"),
        (b"", "an empty file\n"),
        (b"PK\3\4cut", "a zip archive that is cut off or damaged\n"),
        (b"\x89HDF\r\n\x1a\n" + bytes(99), "an HDF5 file\nweights are read from safetensors"),
        (b"no weights", "not a plain state dict: "),
    ],
)
def test_what_is_no_weights_is_named(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "w.pth"
    path.write_bytes(content)
    assert refusal(read_state_dict, path).startswith(f"{path}: {said}")


def test_addresses_and_several_state_dicts(tmp_path: Path) -> None:
    said = refusal(read_state_dict, Path("https://example.org/resnet.pth"))
    assert said == "https://example.org/resnet.pth: an address: download it first"
    state = {"a": torch.ones(1)}
    torch.save({"ema": state, "net": state, "optimizer": {"lr": 1}}, tmp_path / "w.pth")
    said = refusal(read_state_dict, tmp_path / "w.pth")
    assert said.endswith(
        "holds several state dicts: ema, net\nsave the one you want: "
        "torch.save(checkpoint['ema'], path)"
    )
    kind = kind_of(tmp_path / "w.pth")
    assert kind is not None
    assert kind.key == "torch"
    with pytest.raises(WorkbenchError, match="no such weights file"):
        read_state_dict(tmp_path / "none.pth")
