"""Selection of regions against a loop over classes with torchvision's suppression."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torchvision.ops import nms

from models.detector.selection import RegionOutput, confidences, select_regions
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


@pytest.mark.parametrize("part", ["boxes", "object_scores"])
def test_values_that_are_not_finite(part: str) -> None:
    output = made(3, 2, 0)
    getattr(output, part)[1, 1] = torch.nan
    with pytest.raises(WorkbenchError, match="not finite"):
        confidences(output)
