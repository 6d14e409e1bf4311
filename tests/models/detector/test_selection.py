"""Selection of regions against a loop over classes with torchvision's suppression."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torchvision.ops import nms

from models.detector.c4 import C4Detector
from models.detector.extraction import select
from models.detector.fpn import FPNDetector
from models.detector.selection import RegionOutput, confidences, select_regions
from pipeline.features.regions.params import RegionsConfig
from pipeline.runtime.errors import WorkbenchError


def made(proposals: int, classes: int, seed: int, levels: int = 0) -> RegionOutput:
    """Crowded boxes; with `levels`, scores take few values, so that ties are many."""
    generator = torch.Generator().manual_seed(seed)
    starts = torch.rand(proposals, 2, generator=generator) * 40
    sides = torch.rand(proposals, 2, generator=generator) * 60 + 5
    scores = torch.rand(proposals, classes + 1, generator=generator)
    if levels:
        scores = (scores * levels).floor() / levels
    boxes = torch.cat([starts, starts + sides], 1)
    return RegionOutput(boxes, torch.zeros(proposals, 2), scores, torch.zeros(proposals, 0))


def slow_confidences(output: RegionOutput, iou: float) -> torch.Tensor:
    best = torch.zeros(len(output.boxes))
    for column in range(1, output.object_scores.shape[1]):
        scores = output.object_scores[:, column]
        for kept in nms(output.boxes, scores, iou).tolist():
            best[kept] = max(best[kept], scores[kept])
    return best


def slow_select(output, minimum, maximum, threshold, iou) -> list[int]:
    best = slow_confidences(output, iou).tolist()
    threshold = torch.tensor(threshold).item()  # as precise as the scores are
    order = sorted(range(len(best)), key=lambda row: (-best[row], row))
    kept = [row for row in order if best[row] >= threshold]
    if len(kept) < minimum:
        kept = order[:minimum]
    return kept[:maximum]


@settings(max_examples=30)
@given(
    proposals=st.integers(0, 80),
    classes=st.integers(0, 6),
    seed=st.integers(0, 10_000),
    levels=st.sampled_from([0, 3, 50]),
    iou=st.sampled_from([0.0, 0.3, 0.7, 1.0]),
)
def test_equals_the_loop_over_classes(proposals, classes, seed, levels, iou) -> None:
    output = made(proposals, classes, seed, levels)
    assert torch.equal(confidences(output, iou), slow_confidences(output, iou))
    for minimum, maximum, threshold in ((0, 5, 0.9), (10, 100, 0.2), (36, 36, 0.0)):
        found = select_regions(output, minimum, maximum, threshold, iou)
        assert found.dtype == torch.int64
        assert found.tolist() == slow_select(output, minimum, maximum, threshold, iou)


def caffe_nms(boxes: list[list[float]], scores: list[float], iou: float) -> list[int]:
    """Rows that survive in py-faster-rcnn's loop: a box from 0 to 15 is 16 wide."""
    kept: list[int] = []
    for row in sorted(range(len(boxes)), key=lambda row: (-scores[row], row)):
        x1, y1, x2, y2 = boxes[row]
        area = (x2 - x1 + 1) * (y2 - y1 + 1)
        for other in kept:
            left, top, right, bottom = boxes[other]
            width = max(0.0, min(x2, right) - max(x1, left) + 1)
            height = max(0.0, min(y2, bottom) - max(y1, top) + 1)
            shared = width * height
            joined = area + (right - left + 1) * (bottom - top + 1) - shared
            if shared / joined > iou:
                break
        else:
            kept.append(row)
    return kept


@settings(max_examples=40)
@given(
    starts=st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), min_size=1, max_size=12),
    sides=st.tuples(st.integers(1, 9), st.integers(1, 9)),
    seed=st.integers(0, 1000),
)
def test_boxes_that_name_their_last_pixel_are_suppressed_as_in_caffe(starts, sides, seed) -> None:
    """Whole pixels, and thresholds between the fractions that small boxes can have."""
    boxes = torch.tensor([[x, y, x + sides[0], y + sides[1]] for x, y in starts]).float()
    scores = torch.rand(len(boxes), 3, generator=torch.Generator().manual_seed(seed))
    empty = torch.zeros(len(boxes), 0)
    output = RegionOutput(boxes, empty, scores, empty)
    iou = 0.3001
    wanted = torch.zeros(len(boxes))
    for column in (1, 2):
        for row in caffe_nms(boxes.tolist(), scores[:, column].tolist(), iou):
            wanted[row] = max(wanted[row], scores[row, column])
    assert torch.equal(confidences(output, iou, last_pixel=True), wanted)


def test_the_last_pixel_decides_between_small_boxes() -> None:
    """They share 6 of 12 pixels, or 2 of 6 where the last one is not counted."""
    boxes = torch.tensor([[0.0, 0.0, 2.0, 2.0], [1.0, 0.0, 3.0, 2.0]])
    scores, empty = torch.tensor([[0.1, 0.9], [0.2, 0.8]]), torch.zeros(2, 0)
    plain = RegionOutput(boxes, empty, scores, empty)
    best, other = scores[:, 1].tolist()
    assert confidences(plain, 0.4).tolist() == [best, other]
    assert confidences(plain, 0.4, last_pixel=True).tolist() == [best, 0.0]


@pytest.mark.parametrize(("network", "kept"), [(C4Detector, 1), (FPNDetector, 2)])
def test_each_detector_has_the_nms_of_its_boxes(network, kept) -> None:
    """Their IoU is 4 of 14, which is 0.29; with the last pixel 9 of 23, which is 0.39."""
    boxes = torch.tensor([[0.0, 0.0, 3.0, 3.0], [1.0, 1.0, 4.0, 4.0]])
    scores, empty = torch.tensor([[0.1, 0.9], [0.2, 0.8]]), torch.zeros(2, 0)
    settings = RegionsConfig(boxes="adaptive", min=1, max=2, threshold=0.5)
    found = select(settings, network.last_pixel, RegionOutput(boxes, empty, scores, empty))
    assert found.tolist() == [0, 1][:kept]


@pytest.mark.parametrize("part", ["boxes", "object_scores"])
def test_values_that_are_not_finite(part: str) -> None:
    output = made(3, 2, 0)
    getattr(output, part)[1, 1] = torch.nan
    with pytest.raises(WorkbenchError, match="not finite"):
        confidences(output)
