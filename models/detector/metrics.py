"""How well a detector finds and names the objects of labelled images.

Judged are proposals with boxes refined once, by their best class, and class scores after NMS within
each class.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torchvision.ops import batched_nms, box_iou

from models.detector.selection import RegionOutput

IOU = 0.5  # of a hit, and above which a better detection of the same class suppresses
LEAST_SCORE = 0.05  # as torchvision: detections must be above it


@dataclass(frozen=True)
class GroundTruth:
    """The G objects of one image."""

    boxes: Tensor  # (G, 4) x1 y1 x2 y2 pixels
    labels: Tensor  # (G,) from 1
    attributes: Tensor  # (G, A) of 0 or 1

    def to(self, device: torch.device) -> "GroundTruth":
        """Copy all tensors to a device; one that is there already is taken as it is."""
        return GroundTruth(
            self.boxes.to(device), self.labels.to(device), self.attributes.to(device)
        )


@dataclass(frozen=True)
class Detections:
    """Detections of one image by descending score."""

    boxes: Tensor  # (K, 4) x1 y1 x2 y2 pixels
    labels: Tensor  # (K,) from 1
    scores: Tensor  # (K,)
    rows: Tensor  # (K,) of the RegionOutput they come from


def detections(output: RegionOutput) -> Detections:
    """The proposals of one image as detections, after NMS within each class."""
    scores = output.object_scores[:, 1:]
    rows, classes = torch.nonzero(scores > LEAST_SCORE, as_tuple=True)
    values = scores[rows, classes]
    boxes = output.boxes[rows]
    kept = batched_nms(boxes.float(), values.float(), classes, IOU)
    return Detections(
        boxes=boxes[kept], labels=classes[kept] + 1, scores=values[kept], rows=rows[kept]
    )


def detection_metrics(
    outputs: Sequence[RegionOutput], truths: Sequence[GroundTruth], threshold: float
) -> dict[str, float]:
    """Quality over N images, as shares from 0 to 1.

    recall: objects with a detection of their class, score >= threshold, IoU >= 0.5; map: mean over
    the classes that occur of the average precision at IoU 0.5 (Pascal VOC from 2010 on: area under
    the precision envelope, a second detection of an object is wrong); attributes: of the objects
    found and having n attributes, the share of true ones among the n with the largest scores.

    Args:
        outputs: N, what the detector says of each image.
        truths: N, the objects of the same images.
        threshold: least score of a detection that recall and attributes count.

    Returns:
        recall, map and attributes, each 0 where there is nothing to find.
    """
    detected = [detections(output) for output in outputs]
    correct = [hits(part, truth) for part, truth in zip(detected, truths, strict=True)]
    labels = np.concatenate([part.labels.numpy() for part in detected])
    scores = np.concatenate([part.scores.numpy() for part in detected])
    right = np.concatenate([(owner >= 0).numpy() for owner in correct])
    true = np.concatenate([truth.labels.numpy() for truth in truths])
    precisions = [
        average_precision(scores[labels == label], right[labels == label], int(objects))
        for label, objects in zip(*np.unique(true, return_counts=True), strict=True)
    ]
    hit = int((right & (scores >= threshold)).sum())
    return {
        "recall": hit / max(len(true), 1),
        "map": float(np.mean(precisions)) if precisions else 0.0,
        "attributes": _attribute_precision(
            outputs, detected, owners=correct, truths=truths, threshold=threshold
        ),
    }


def hits(found: Detections, truth: GroundTruth) -> Tensor:
    """Which object each detection is the first to hit. A detection aims at the object of its class
    with the largest IoU, taken or not.

    Args:
        found: K detections, best first.
        truth: the objects of the same image.

    Returns:
        (K,) int64 numbers of the objects, -1 for wrong detections.
    """
    owners = torch.full((len(found.scores),), -1, dtype=torch.int64)
    if not len(truth.labels):
        return owners
    ious = box_iou(found.boxes.double(), truth.boxes.double())
    ious[found.labels[:, None] != truth.labels] = 0
    best, aims = ious.max(1)
    taken: set[int] = set()
    for row in torch.nonzero(best >= IOU).flatten().tolist():
        aim = int(aims[row])
        if aim not in taken:
            taken.add(aim)
            owners[row] = aim
    return owners


def average_precision(scores: np.ndarray, right: np.ndarray, objects: int) -> float:
    """Area under the precision envelope over recall.

    Equal scores count together, so that their order does not matter.

    Args:
        scores: (K,) of detections.
        right: (K,) bool, whether each is right.
        objects: number of true ones.

    Returns:
        A share, 0..1; 0 without detections or true objects.
    """
    if not len(scores) or not objects:
        return 0.0
    order = np.argsort(-scores, kind="stable")
    last = np.append(np.flatnonzero(np.diff(scores[order])), len(scores) - 1)
    true_positives = np.cumsum(right[order])[last]
    precision = true_positives / (last + 1)
    envelope = np.maximum.accumulate(precision[::-1])[::-1]
    steps = np.diff(true_positives, prepend=0) / objects
    return float((steps * envelope).sum())


def _attribute_precision(
    outputs: Sequence[RegionOutput],
    detected: Sequence[Detections],
    owners: Sequence[Tensor],
    truths: Sequence[GroundTruth],
    threshold: float,
) -> float:
    """`attributes` of detection_metrics; owners: of each image, what `hits` gives."""
    right = total = 0
    for output, part, owner, truth in zip(outputs, detected, owners, truths, strict=True):
        kept = (owner >= 0) & (part.scores >= threshold)
        wanted = truth.attributes[owner[kept]].bool()
        order = output.attribute_scores[part.rows[kept]].argsort(1, descending=True)
        ranked = wanted.gather(1, order)
        first = torch.arange(ranked.shape[1]) < wanted.sum(1, keepdim=True)
        right += int((ranked & first).sum())
        total += int(wanted.sum())
    return right / total if total else 0.0
