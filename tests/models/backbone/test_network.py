"""Backbones: named layers equal hooks on the whole network, pooling, pruning, strict weights, speed
paths that do not change the result."""

import pytest
import torch
from backbones import images, lively
from torch import nn
from torchvision import models as zoo

from models.backbone.extraction import accelerate, fold_batch_norm
from models.backbone.network import (
    BackboneError,
    classifier,
    cut,
    load_strict,
    pooled,
    weights_digest,
)
from models.backbone.poolings import POOLINGS

CPU = torch.device("cpu")


def hooked(network: nn.Module, names: list[str], batch: torch.Tensor) -> list[torch.Tensor]:
    """Outputs of modules of the uncut network, copied before anything can overwrite them."""
    found: dict[str, torch.Tensor] = {}
    for name in names:

        def keep(module: nn.Module, args: object, out: torch.Tensor, name: str = name) -> None:
            found[name] = out.clone()

        network.get_submodule(name).register_forward_hook(keep)
    with torch.inference_mode():
        network(batch)
    return [found[name] for name in names]


@pytest.mark.parametrize(
    ("model", "layers", "modules"),
    [
        ("resnet18", ["layer1", "layer2", "layer3"], ["layer1", "layer2", "layer3"]),
        ("resnet18", ["layer1.0.bn1", "layer2", "bn1"], ["layer1.0.bn1", "layer2", "bn1"]),
        ("resnet18", ["pool5"], ["avgpool"]),
        ("alexnet", ["pool5", "fc6", "fc7"], ["features.12", "classifier.2", "classifier.5"]),
        ("densenet121", ["features", "classifier"], ["features", "classifier"]),
        ("mobilenet_v3_small", ["features.3", "avgpool"], ["features.3", "avgpool"]),
    ],
)
def test_layers_equal_those_of_the_whole_network(model, layers, modules) -> None:
    expected = [
        pooled(out, POOLINGS.load("mean_max")) for out in hooked(lively(model), modules, images())
    ]
    backbone, width = cut(lively(model), layers, "mean_max", 64)
    with torch.inference_mode():
        found = backbone(images())
    assert found.shape == (2, width)
    behind = any(name.startswith("graph.layer4") for name in backbone.state_dict())
    assert behind == (layers == ["pool5"])  # nothing behind the deepest layer is kept
    torch.testing.assert_close(found, torch.cat(expected, 1), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("layer", "module"), [("fc7", 4), ("fc6", 1)])
def test_names_of_the_literature_on_vgg(layer: str, module: int) -> None:
    network = zoo.VGG(nn.Sequential(nn.Conv2d(3, 512, 3), nn.MaxPool2d(8)), num_classes=7).eval()
    backbone, width = cut(network, [layer, "pool5"], "max", 32)
    with torch.inference_mode():
        maps = network.features(images(size=32))
        vector = network.classifier[: module + 1](network.avgpool(maps).flatten(1))
        found = backbone(images(size=32))
    assert width == 4096 + 512
    assert (vector >= 0).all()
    torch.testing.assert_close(found, torch.cat([vector, maps.amax((2, 3))], 1))


def test_every_pooling_makes_vectors_whatever_the_order_of_positions() -> None:
    maps = torch.randn(2, 3, 20)
    for pool in map(POOLINGS.load, POOLINGS):
        found = pool(maps)
        assert (found.ndim, len(found), found.dtype) == (2, 2, torch.float32)
        torch.testing.assert_close(pool(maps[:, :, torch.randperm(20)]), found)
    both = torch.cat([maps.mean(2), maps.amax(2)], 1)
    torch.testing.assert_close(POOLINGS.load("mean_max")(maps), both)


@pytest.mark.parametrize(
    ("model", "layers", "words"),
    [
        ("resnet81", ["layer1"], ["resnet81", "resnet18"]),
        ("fasterrcnn_resnet50_fpn", ["layer1"], ["not a torchvision classifier"]),
        ("resnet18", ["layer9"], ["layer9", "similar: layer4", "at the top: conv1", "pool5"]),
        ("resnet18", ["fc7"], ["no layer 'fc7'"]),
        ("resnet18", ["pool5", "avgpool"], ["named twice"]),
        ("resnet18", [], ["allowed are"]),
        ("vit_b_32", ["encoder"], ["neither a vector nor a feature map", "getitem_5"]),
        ("swin_t", ["features"], ["channels last", "permute"]),
        ("timm/tset_resnet", ["map"], ["not a network of timm", "timm/test_resnet"]),
        ("timm/resnet18.nobody", ["map"], ["not with such weights", "timm/resnet18"]),
        ("timm/test_resnet", ["token"], ["no layer 'token'", "at the top: features, map, joint"]),
        ("timm/test_vit3", ["blocks.1"], ["neither a vector", "at token, map or features"]),
        ("timm/vit_relpos_small_patch16_224", ["features"], ["160 x 160 pixels do not fit"]),
    ],
)
def test_what_cannot_be_cut_is_said_plainly(model, layers, words) -> None:
    with pytest.raises(BackboneError) as error:
        cut(classifier(model, 0), layers, "mean", 160 if "timm" in model else 224)
    for word in words:
        assert word in str(error.value)


def test_random_weights_repeat_and_leave_the_global_state_alone() -> None:
    torch.manual_seed(11)
    expected = torch.rand(1)
    torch.manual_seed(11)
    first = weights_digest(classifier("resnet18", 7))
    assert torch.equal(torch.rand(1), expected)
    assert weights_digest(classifier("resnet18", 8)) != first
    assert weights_digest(classifier("resnet18", 7)) == first


def test_state_dicts_are_loaded_strictly() -> None:
    network, source = classifier("resnet18", 0), classifier("resnet18", 1)
    state = dict(source.state_dict())
    load_strict(network, state)
    assert weights_digest(network) == weights_digest(source)
    # Published VGG and ResNet files are older than these counters.
    load_strict(network, {k: v for k, v in state.items() if "num_batches" not in k})
    state["extra"] = state.pop("fc.bias")
    state["conv1.weight"] = torch.zeros(1)
    with pytest.raises(BackboneError) as error:
        load_strict(network, state)
    for word in (
        "1 missing: fc.bias",
        "1 unexpected: extra",
        "conv1.weight (1,) for (64, 3, 7, 7)",
    ):
        assert word in str(error.value)


@pytest.mark.parametrize("model", ["resnet18", "mobilenet_v3_small", "densenet121"])
def test_folding_batch_norm_is_exact(model: str) -> None:
    layers = ["flatten"]
    plain, _ = cut(lively(model), layers, "mean", 64)
    folded, _ = cut(lively(model), layers, "mean", 64)
    norms = sum(isinstance(module, nn.BatchNorm2d) for module in plain.modules())
    count = fold_batch_norm(folded.graph)
    left = sum(isinstance(module, nn.BatchNorm2d) for module in folded.modules())
    assert count > 0
    assert left == norms - count
    assert left == 0 or model == "densenet121"  # its norms stand before the convolutions
    with torch.inference_mode():
        expected, found = plain(images()), folded(images())
    assert (found - expected).abs().max() <= 1e-5 * expected.abs().max()


def test_a_convolution_that_is_wanted_itself_is_not_folded() -> None:
    layers = ["layer1.0.conv1", "layer1.0.bn1", "layer1"]
    expected = hooked(lively("resnet18"), layers, images())
    backbone, _ = cut(lively("resnet18"), layers, "mean", 64)
    with torch.inference_mode():
        found = accelerate(backbone, CPU, "fp32", False, 2, 64)(images())
    parts = torch.cat([pooled(out, POOLINGS.load("mean")) for out in expected], 1)
    torch.testing.assert_close(found, parts, rtol=1e-4, atol=1e-5)


def test_bfloat16_is_near_and_answers_in_float32() -> None:
    plain, _ = cut(lively("resnet18"), ["layer1", "layer2"], "mean_max", 64)
    quick, _ = cut(lively("resnet18"), ["layer1", "layer2"], "mean_max", 64)
    with torch.inference_mode():
        expected = plain(images())
    found = accelerate(quick, CPU, "bf16", False, 2, 64)(images())
    assert found.dtype == torch.float32
    assert torch.cosine_similarity(found, expected).min() > 0.999
    assert not torch.equal(found, expected)
