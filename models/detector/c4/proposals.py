"""Region proposals of the bottom-up detector, with the Caffe code's anchors and box arithmetic.

Its boxes include their last pixel: a box from 0 to 15 is 16 wide. Anchors are rounded to whole
pixels. The published weights were trained with both, so both stay.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torchvision.ops import clip_boxes_to_image, nms

from models.detector.selection import CHECK
from pipeline.runtime.errors import WorkbenchError

STRIDE = 16
SCALES = (4, 8, 16, 32)  # sides of the square anchors, in strides
RATIOS = (0.5, 1.0, 2.0)  # height to width
LARGEST = math.log(1000 / 16)  # largest log of a growth in size: exp would overflow


@dataclass(frozen=True)
class C4Sizes:
    """Sizes of a C4 detector, as plain values that JSON holds; the defaults are the paper's."""

    width: int = 64  # channels of the stem; D is 32 times that
    blocks: Sequence[int] = (3, 4, 23, 3)  # of res2 to res5
    hidden: int = 512  # channels of the proposal network
    embedding: int = 256  # width of a class in the attribute head
    attribute_hidden: int = 512  # width of the attribute head's hidden layer
    candidates: int = 6000  # boxes per image before NMS
    proposals: int = 300  # P, boxes per image after NMS at most
    proposal_iou: float = 0.7  # threshold of NMS
    smallest: float = 16.0  # least side of a proposal, in pixels of the image as given
    short_side: int = 600  # of the scaled image, in pixels
    long_side: int = 1000  # upper limit, in pixels


class ProposalHead(nn.Module):
    """(B, inside, H, W) to background and object logits (B, 24, H, W), the background's first, one
    per anchor (Ren et al. 2015 in Caffe), and deltas (B, 48, H, W)."""

    def __init__(self, inside: int, hidden: int) -> None:
        super().__init__()
        anchors = len(SCALES) * len(RATIOS)
        self.conv = nn.Conv2d(inside, hidden, 3, padding=1)
        self.objectness_logits = nn.Conv2d(hidden, 2 * anchors, 1)
        self.anchor_deltas = nn.Conv2d(hidden, 4 * anchors, 1)

    def forward(self, maps: Tensor) -> tuple[Tensor, Tensor]:
        """Logits and deltas of every anchor at every place."""
        hidden = F.relu(self.conv(maps))
        return self.objectness_logits(hidden), self.anchor_deltas(hidden)


class ProposalNetwork(nn.Module):
    """Proposals of one image, best first."""

    def __init__(self, inside: int, sizes: C4Sizes) -> None:
        super().__init__()
        self.rpn_head, self.sizes = ProposalHead(inside, sizes.hidden), sizes

    def forward(self, maps: Tensor, height: int, width: int, scale: float) -> Tensor:
        """Maps (1, inside, H, W) to boxes (P, 4) in pixels of the scaled image, inside it. height,
        width: of the scaled image in pixels; scale: its size to that of the image as given."""
        logits, deltas = self.rpn_head(maps)
        if not bool(torch.isfinite(logits).all() & torch.isfinite(deltas).all()):
            raise WorkbenchError("the detector's proposals are not finite", CHECK)
        scores = object_scores(logits)
        boxes = decode(anchors(maps.shape[-2], maps.shape[-1], maps.device), rows(deltas, 4))
        inside = clip_boxes_to_image(boxes, (height - 1, width - 1))
        return self.best(inside, scores, self.sizes.smallest * scale)

    def best(self, boxes: Tensor, scores: Tensor, smallest: float) -> Tensor:
        """Large enough boxes (N, 4) that survive NMS by their scores (N,): (P, 4), best first.
        smallest: least side in pixels of the scaled image, as the boxes are."""
        sides = boxes[:, 2:] - boxes[:, :2]
        large = ((sides > 0) & (sides + 1 >= smallest)).all(1)
        boxes, scores = boxes[large], scores[large]
        order = scores.argsort(descending=True, stable=True)[: self.sizes.candidates]
        boxes, scores = boxes[order], scores[order]
        # Ends moved by one pixel give torchvision's IoU the sides that include the last pixel.
        ends = boxes + boxes.new_tensor([0, 0, 1, 1])
        return boxes[nms(ends, scores, self.sizes.proposal_iou)[: self.sizes.proposals]]


def rows(maps: Tensor, values: int) -> Tensor:
    """(1, A x values, H, W) to (H x W x A, values), anchors of a place side by side."""
    return maps[0].permute(1, 2, 0).reshape(-1, values)


def object_scores(logits: Tensor) -> Tensor:
    """(1, 2A, H, W), the background's first, to the objects' probabilities (H x W x A,)."""
    background, objects = (rows(half, 1)[:, 0] for half in logits.chunk(2, dim=1))
    return torch.sigmoid(objects - background)


def cell_anchors() -> Tensor:
    """(12, 4) boxes around the first place of the map, ratio by ratio, scale by scale. Widths and
    heights are rounded for every ratio before they are scaled (py-faster-rcnn)."""
    boxes = []
    for ratio in RATIOS:
        across = round(math.sqrt(STRIDE**2 / ratio))
        down = round(across * ratio)
        for scale in SCALES:
            half = torch.tensor([scale * across - 1, scale * down - 1]) / 2
            centre = (STRIDE - 1) / 2
            boxes.append(torch.cat([centre - half, centre + half]))
    return torch.stack(boxes)


def anchors(height: int, width: int, device: torch.device) -> Tensor:
    """(H x W x 12, 4) boxes of every place of a map, row by row, in pixels of the scaled image."""
    down = torch.arange(height, device=device, dtype=torch.float32) * STRIDE
    across = torch.arange(width, device=device, dtype=torch.float32) * STRIDE
    y, x = torch.meshgrid(down, across, indexing="ij")
    shifts = torch.stack([x, y, x, y], dim=-1)
    return (shifts[:, :, None] + cell_anchors().to(device)).reshape(-1, 4)


def decode(boxes: Tensor, deltas: Tensor) -> Tensor:
    """Boxes (N, 4) moved by deltas (N, 4): shifts in sides, logs of growth (Girshick 2015)."""
    sides = boxes[:, 2:] - boxes[:, :2] + 1
    centres = boxes[:, :2] + sides / 2 + deltas[:, :2] * sides
    half = sides * deltas[:, 2:].clamp(max=LARGEST).exp() / 2
    return torch.cat([centres - half, centres + half], dim=1)
