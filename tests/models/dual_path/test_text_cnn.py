"""The text CNN against the same sums in plain loops, and its shape against the image networks."""

import numpy as np
import pytest
import torch
from torch import nn
from torchvision import models as zoo

from models.dual_path.text import STAGES, TextCNN


def randomised(depth, width=2, pool="max", vocabulary_size=9, word_dim=3):
    """A network in evaluation mode whose batch norms do something."""
    torch.manual_seed(0)
    model = TextCNN(vocabulary_size, word_dim, depth, width, pool).double().eval()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm1d):
            for values in (module.weight, module.running_var):
                nn.init.uniform_(values, 0.5, 1.5)
            for values in (module.bias, module.running_mean):
                nn.init.normal_(values)
    return model


def slow_convolution(maps, layer, norm):
    """Every sum of a convolution written out; maps (C, S), zeros behind the last slot."""
    weight, stride = layer.weight.detach().numpy(), layer.stride[0]
    result = np.zeros((len(weight), -(-maps.shape[1] // stride)))
    for output in range(result.shape[0]):
        for place in range(result.shape[1]):
            for channel in range(maps.shape[0]):
                for tap in range(weight.shape[2]):
                    slot = place * stride + tap
                    value = maps[channel, slot] if slot < maps.shape[1] else 0.0
                    result[output, place] += weight[output, channel, tap] * value
    mean, var, gamma, beta = (
        values.detach().numpy()[:, None]
        for values in (norm.running_mean, norm.running_var, norm.weight, norm.bias)
    )
    return (result - mean) / np.sqrt(var + norm.eps) * gamma + beta


def slow_path(maps, module):
    layers = [m for m in module.modules() if isinstance(m, nn.Conv1d | nn.BatchNorm1d)]
    for number, (layer, norm) in enumerate(zip(layers[::2], layers[1::2], strict=True)):
        maps = slow_convolution(np.maximum(maps, 0) if number else maps, layer, norm)
    return maps


def slow_network(model, slots):
    maps = model.words.weight.detach().numpy()[slots].T
    for block in model.blocks:
        maps = np.maximum(slow_path(maps, block.body) + slow_path(maps, block.shortcut), 0)
    return maps.max(1) if model.pool == "max" else maps.mean(1)


@pytest.mark.parametrize(
    ("depth", "width", "slots", "pool"),
    [("resnet18", 2, 8, "max"), ("resnet18", 1, 11, "mean"), ("resnet50", 1, 6, "mean")],
)
def test_it_equals_plain_loops(depth, width, slots, pool):
    model = randomised(depth, width, pool)
    tokens = np.random.default_rng(0).integers(0, 9, (2, slots))
    tokens[0, :2] = 0
    expected = np.stack([slow_network(model, row) for row in tokens])
    with torch.inference_mode():
        found = model(torch.from_numpy(tokens)).numpy()
    assert found.shape == (2, model.outputs)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("depth", STAGES)
def test_it_is_as_deep_and_wide_as_the_image_network(depth):
    """Blocks, convolutions behind the stem, strides and widths of torchvision's ResNet."""
    with torch.device("meta"):
        text, image = TextCNN(20, 300, depth, 64), zoo.get_model(depth, weights=None)
    blocks = [block for stage in range(1, 5) for block in getattr(image, f"layer{stage}")]
    assert len(text.blocks) == len(blocks)
    for ours, theirs in zip(text.blocks, blocks, strict=True):
        assert plan(ours.body, nn.Conv1d) == [
            (outputs, min(side, 2), stride)
            for outputs, side, stride in plan(theirs, nn.Conv2d, skip="downsample")
        ]
    assert text.outputs == image.fc.in_features


def plan(module, kind, skip="nothing"):
    """Outputs, width of the kernel and stride of each convolution."""
    found = [m for name, m in module.named_modules() if isinstance(m, kind) and skip not in name]
    return [(m.out_channels, m.kernel_size[-1], m.stride[-1]) for m in found]


def test_every_weight_learns_but_the_empty_slot_stays_zero():
    torch.manual_seed(0)
    model = TextCNN(9, 3, "resnet18", 4, "mean")
    optimiser = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, weight_decay=0.1)
    tokens = torch.randint(0, 9, (6, 8))
    tokens[:, 5] = torch.arange(3, 9)
    for _ in range(2):
        optimiser.zero_grad()
        model(tokens).square().sum().backward()
        optimiser.step()
    for name, value in model.named_parameters():
        assert value.grad.any(), name
    assert not model.words.weight[0].any()
