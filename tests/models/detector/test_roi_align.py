"""RoIAlign as products against torchvision's: values and gradients, in float64."""

import pytest
import torch
from torchvision.ops import MultiScaleRoIAlign

from models.detector.roi_align import RoIAlign

LEVELS = ["0", "1", "2"]


def case(seed, side, images=3, boxes=40):
    """Maps of three levels, boxes of all sizes, in part outside of the image, none in one image."""
    generator = torch.Generator().manual_seed(seed)
    sides = [side // stride for stride in (4, 8, 16)]
    maps = {
        level: torch.randn(images, 5, n, n + 2, dtype=torch.float64, generator=generator)
        for level, n in zip(LEVELS, sides, strict=True)
    }
    corners, lengths = torch.rand(2, images, boxes, 2, dtype=torch.float64, generator=generator)
    corners = corners * side * 1.2 - side * 0.1
    all_boxes = torch.cat([corners, corners + lengths**3 * side * 1.5], 2)
    return maps, [all_boxes[0], all_boxes[1, :0], all_boxes[2]], [(side, side)] * images


@pytest.mark.parametrize(("seed", "side"), [(0, 64), (1, 512), (2, 96)])
def test_values_and_gradients_are_torchvisions(seed, side):
    maps, boxes, shapes = case(seed, side)
    results = []
    for align in (MultiScaleRoIAlign(LEVELS, 7, 2), RoIAlign(LEVELS, 7).train()):
        leaves = {level: values.clone().requires_grad_() for level, values in maps.items()}
        cells = align(leaves, boxes, shapes)
        gradient = torch.linspace(-1, 1, cells.numel(), dtype=cells.dtype).view(cells.shape)
        cells.backward(gradient)
        results.append([cells.detach(), *(leaf.grad for leaf in leaves.values())])
    assert results[0][0].shape == (80, 5, 7, 7)
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)


def test_every_level_is_chosen_in_these_cases():
    for seed, side in ((0, 64), (1, 512)):
        maps, boxes, shapes = case(seed, side)
        leaves = {level: values.requires_grad_() for level, values in maps.items()}
        RoIAlign(LEVELS, 7).train()(leaves, boxes, shapes).sum().backward()
        used = [bool(leaf.grad.any()) for leaf in leaves.values()]
        assert used == ([True, False, False] if side == 64 else [True, True, True])


def test_in_evaluation_it_is_torchvisions_own():
    maps, boxes, shapes = case(0, 64)
    ours, theirs = RoIAlign(LEVELS, 7).eval(), MultiScaleRoIAlign(LEVELS, 7, 2)
    assert torch.equal(ours(maps, boxes, shapes), theirs(maps, boxes, shapes))
