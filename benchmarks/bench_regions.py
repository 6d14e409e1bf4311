"""Region selection: against a loop over classes, and as a share of the detector's time."""

import statistics

import torch
from torchvision.ops import nms

from benchmarks.common import Row, paired_ratio, seconds
from models.detector.c4 import C4Detector
from models.detector.selection import RegionOutput, confidences, select_regions

PROPOSALS, CLASSES, ATTRIBUTES = 300, 1600, 400  # of the bottom-up detector
DESCRIBED = 32  # regions that the detector describes here: fewer than it does, so a stricter share


def rows() -> list[Row]:
    """The table's rows: the loop's time, then the share."""
    output = crowded()
    pair = paired_ratio(lambda: confidences(output), lambda: loop(output, iou=0.3), runs=5)
    work = f"selection, {PROPOSALS} proposals x {CLASSES} classes, against a loop over classes"
    return [pair.at_least(work, 4, "the loop"), share_row(output)]


def share_row(output: RegionOutput) -> Row:
    """Selection among 300 regions beside the C4 detector on one image of 600 x 800 pixels."""
    names = [str(number) for number in range(CLASSES)]
    network = C4Detector(names, names[:ATTRIBUTES], proposals=DESCRIBED).eval()
    image = torch.randint(0, 256, (3, 600, 800), dtype=torch.uint8)
    detector = seconds(lambda: network.regions([image])).wall
    select = statistics.median(
        seconds(lambda: select_regions(output, 10, 100, 0.2)).wall for _ in range(5)
    )
    return Row(
        f"selection among {PROPOSALS} regions as a share of the C4 detector's time "
        f"(600 x 800 pixels, {DESCRIBED} regions described)",
        f"{select / detector:.1%} ({select * 1e3:.0f} ms of {detector:.1f} s)",
        "<= 5 %",
        select <= 0.05 * detector,
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
