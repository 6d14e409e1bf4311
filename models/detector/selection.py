"""Which proposals become the regions of an image: NMS, of all classes together, and top-k."""

from typing import NamedTuple

import torch
from torch import Tensor
from torchvision.ops import box_iou

from pipeline.phrases.boxes import survivors
from pipeline.runtime.errors import WorkbenchError

CHECK = "check the detector's weights"


class RegionOutput(NamedTuple):
    """What a detector says about the P proposals of one image."""

    boxes: Tensor  # (P, 4) float32 x1 y1 x2 y2 in pixels of the image as given, clipped to it
    features: Tensor  # (P, D) float32
    object_scores: Tensor  # (P, C + 1) softmax, background in column 0
    attribute_scores: Tensor  # (P, A) probabilities without "no attribute", A may be 0


def select_regions(
    output: RegionOutput,
    minimum: int,
    maximum: int,
    threshold: float,
    iou: float = 0.3,
    last_pixel: bool = False,
) -> Tensor:
    """The proposals to keep, by descending confidence, equals in their order.

    Those with a confidence of at least `threshold` are kept, at least `minimum` (if there are so
    many) and at most `maximum`. Anderson et al. 2018, section 3.1 and their extraction code (36
    fixed; or 10 to 100 at 0.2).

    Args:
        output: of one image.
        minimum: least number to keep.
        maximum: largest number to keep.
        threshold: least confidence, from 0 to 1.
        iou: boxes of a class that overlap more suppress each other; 0.3 in the authors' code.
        last_pixel: whether x2 and y2 of a box name its last pixel, as in Caffe.

    Returns:
        (K,) int64 rows of the proposals.

    Raises:
        WorkbenchError: boxes or scores that are not finite.
    """
    confidence = confidences(output, iou, last_pixel)
    count = min(max(int((confidence >= threshold).sum()), minimum), maximum)
    return confidence.argsort(descending=True, stable=True)[:count]


def confidences(output: RegionOutput, iou: float = 0.3, last_pixel: bool = False) -> Tensor:
    """The best class score of each proposal that survives the NMS of its class.

    Args:
        output: of one image.
        iou: boxes that overlap more suppress each other.
        last_pixel: whether x2 and y2 of a box name its last pixel, as in Caffe, so that a box from
            0 to 15 is 16 wide; else its end.

    Returns:
        (P,) scores, 0 where none survives.

    Raises:
        WorkbenchError: boxes or scores that are not finite.
    """
    boxes = output.boxes
    scores = output.object_scores[:, 1:]
    if not bool(torch.isfinite(scores).all() & torch.isfinite(boxes).all()):
        raise WorkbenchError("the detector gave boxes or scores that are not finite", CHECK)
    if not scores.numel():
        return scores.new_zeros(len(boxes))
    # Ends moved by one pixel give torchvision's IoU the sides that include the last pixel.
    ends = boxes + boxes.new_tensor([0, 0, 1, 1]) if last_pixel else boxes
    near = (box_iou(ends, ends) > iou).cpu().numpy()
    kept = torch.from_numpy(survivors(near, scores.T.cpu().numpy()).T).to(scores.device)
    return scores.where(kept, scores.new_zeros(())).amax(1)
