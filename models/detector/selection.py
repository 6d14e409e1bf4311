"""Which proposals become the regions of an image: per-class suppression and top-k.

Every object class suppresses overlapping proposals for itself, so 1,600 classes mean 1,600 greedy
passes over the same boxes. One overlap matrix serves them all, and all classes take each step of
the pass together.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torchvision.ops import box_iou

BITS = 62  # proposals per 64-bit word: the sign stays free


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

    overlaps: which proposals suppress each other. The best proposal of each class suppresses its
    neighbours, then the next one that is left, and so on; ties go to the earlier proposal.
    """
    order = scores.argsort(dim=0, descending=True, stable=True)  # (P, C)
    places = torch.arange(len(overlaps), device=overlaps.device)
    word, bit = places // BITS, places % BITS
    others = overlaps & (places != places[:, None])
    neighbours = places.new_zeros(len(places), -(-len(places) // BITS))  # (P, W) sets as bits
    neighbours.index_add_(1, word, others.long() << bit)
    alive = torch.full_like(neighbours[:1], -1).repeat(scores.shape[1], 1)  # (C, W)
    for best in order:  # (C,) one proposal of each class
        left = alive.gather(1, word[best][:, None]) >> bit[best][:, None] & 1
        alive &= ~(neighbours[best] * left)
    return (alive[:, word] >> bit & 1).T.bool()
