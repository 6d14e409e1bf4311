"""Region selection: against a loop over classes, and as a share of the detector's time."""

from collections.abc import Iterator
from functools import partial

import torch
from torchvision.ops import nms

from benchmarks.common import Row, paired_ratio, size
from models.detector.c4 import C4Detector
from models.detector.selection import RegionOutput, confidences, select_regions

PROPOSALS, CLASSES, ATTRIBUTES = size((300, 1600, 400), (20, 5, 3))  # of the bottom-up detector
DESCRIBED = size(32, 3)  # regions that the detector describes here: fewer, so a stricter share
HEIGHT, WIDTH = size((600, 800), (48, 64))


def rows() -> Iterator[Row]:
    output = crowded()
    pair = paired_ratio(partial(confidences, output), partial(loop, output, iou=0.3))
    work = f"selection, {PROPOSALS} proposals x {CLASSES} classes, against a loop over classes"
    yield Row(work, pair.faster("the loop"), ">= 4x", 1 / pair.ratio)
    names = [str(number) for number in range(CLASSES)]
    network = C4Detector(names, names[:ATTRIBUTES], proposals=DESCRIBED).eval()
    image = torch.randint(0, 256, (3, HEIGHT, WIDTH), dtype=torch.uint8)
    select = partial(select_regions, output, 10, 100, 0.2)
    pair = paired_ratio(select, partial(network.regions, [image]), runs=3)
    yield Row(
        f"selection among {PROPOSALS} regions as a share of the C4 detector's time "
        f"({HEIGHT} x {WIDTH} pixels, {DESCRIBED} regions described)",
        f"{pair.ratio:.1%} ({pair.ours.wall * 1e3:.0f} ms of {pair.reference.wall:.1f} s)",
        "<= 5 %",
        100 * pair.ratio,
    )


def crowded() -> RegionOutput:
    """Proposals in 30 clusters, which overlap as those of objects do, with random scores."""
    generator = torch.Generator().manual_seed(0)
    places = torch.rand(30, 2, generator=generator) * 600
    chosen = torch.randint(30, (PROPOSALS,), generator=generator)
    centres = places[chosen] + torch.randn(PROPOSALS, 2, generator=generator) * 30
    half = torch.rand(PROPOSALS, 2, generator=generator) * 75 + 15
    scores = (2 * torch.randn(PROPOSALS, CLASSES + 1, generator=generator)).softmax(1)
    empty = torch.zeros(PROPOSALS, 0)
    return RegionOutput(torch.cat([centres - half, centres + half], 1), empty, scores, empty)


def loop(output: RegionOutput, iou: float) -> torch.Tensor:
    """The best surviving score of every proposal (P,), one class after the other."""
    best = torch.zeros(len(output.boxes))
    for scores in output.object_scores.T[1:]:
        kept = nms(output.boxes, scores, iou)
        best[kept] = torch.maximum(best[kept], scores[kept])
    return best
