"""Which proposals become the regions of an image: per-class suppression and top-k.

Every object class suppresses overlapping proposals for itself, so 1,600 classes mean 1,600 greedy
passes over the same boxes. One overlap matrix serves them all, and all classes take each step of
the pass together.
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torchvision.ops import box_iou

BITS = 64  # proposals per word
ONE, ALL = np.uint64(1), np.uint64(2**BITS - 1)


class RegionError(ValueError):
    """Detector output or bounds that nothing can be selected from."""


class RegionOutput(NamedTuple):
    """What a detector says about the P proposals of one image.

    Attributes:
        boxes: (P, 4) float32 x1 y1 x2 y2 in pixels of the image as given, clipped to it.
        features: (P, D) float32.
        object_scores: (P, C + 1) softmax, background in column 0.
        attribute_scores: (P, A) probabilities without the "no attribute" column, A may be 0.
    """

    boxes: Tensor
    features: Tensor
    object_scores: Tensor
    attribute_scores: Tensor


def select_regions(
    output: RegionOutput, minimum: int, maximum: int, threshold: float, iou: float = 0.3
) -> Tensor:
    """The proposals to keep, by descending confidence.

    Proposals with a confidence of at least `threshold` are kept, at least `minimum` and at most
    `maximum` of them; fewer than `minimum` proposals are all kept. Equal bounds give a fixed
    number. Equal confidences keep the order of the proposals. Anderson et al. 2018, section 3.1
    and their extraction code (36 fixed; or 10 to 100 at 0.2).

    Args:
        output: of one image, P proposals.
        minimum: of the rows kept.
        maximum: likewise.
        threshold: least confidence.
        iou: overlap above which the better of a class suppresses the other.

    Returns:
        Rows (K,) int64 of the proposals.

    Raises:
        RegionError: impossible bounds, scores that are not finite.
    """
    if not 0 <= minimum <= maximum:
        raise RegionError(f"minimum {minimum} and maximum {maximum}: allowed is 0 <= min <= max")
    found = confidences(output, iou)
    count = min(max(int((found >= threshold).sum()), minimum), maximum)
    return found.argsort(descending=True, stable=True)[:count]


def confidences(output: RegionOutput, iou: float = 0.3) -> Tensor:
    """(P,) best class score that survives suppression within its class, 0 where none does.

    iou: overlap in [0, 1] above which the higher score suppresses the lower one.
    """
    boxes, scores = output.boxes, output.object_scores[:, 1:]
    if not bool(torch.isfinite(scores).all() & torch.isfinite(boxes).all()):
        raise RegionError("the detector gave boxes or scores that are not finite")
    if not scores.numel():
        return scores.new_zeros(len(boxes))
    alive = survivors(box_iou(boxes, boxes) > iou, scores)
    return scores.where(alive, scores.new_zeros(())).amax(1)


def survivors(overlaps: Tensor, scores: Tensor) -> Tensor:
    """Greedy suppression in every class at once: (P, P) bool and (P, C) scores to (P, C) bool.

    The best proposal of each class suppresses its neighbours, then the next one that is left, and
    so on; ties go to the earlier proposal. The steps are too small for tensors, on a GPU most of
    all: numpy takes a quarter of the time for five classes, two thirds for 1,600.

    Args:
        overlaps: which proposals suppress each other.
        scores: of the proposals, by class.
    """
    order = scores.argsort(dim=0, descending=True, stable=True).cpu().numpy()  # (P, C)
    others = overlaps.cpu().numpy() & ~np.eye(len(overlaps), dtype=bool)
    neighbours = as_bits(others)  # (P, W)
    alive = np.full((order.shape[1], neighbours.shape[1]), ALL, "<u8")  # (C, W)
    classes, words, bits = np.arange(len(alive)), order // BITS, (order % BITS).astype(np.uint64)
    for best, word, bit in zip(order, words, bits, strict=True):  # (C,) one proposal of each class
        left = alive[classes, word] >> bit & ONE
        alive &= ~(neighbours[best] * left[:, None])
    kept = np.unpackbits(alive.view(np.uint8), axis=1, count=len(order), bitorder="little")
    return torch.from_numpy(kept.T.astype(bool)).to(scores.device)


def as_bits(sets: np.ndarray) -> np.ndarray:
    """(P, N) bool to (P, W) words of BITS bits, the first the lowest of the first word."""
    padded = np.pad(sets, ((0, 0), (0, -sets.shape[1] % BITS)))
    return np.packbits(padded, axis=1, bitorder="little").view("<u8")
