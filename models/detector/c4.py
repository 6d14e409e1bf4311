"""The bottom-up detector of Anderson et al. 2018: Faster R-CNN on ResNet-101's res4 ("C4"). Only
its forward pass: weights come from a file. Everything is as in the authors' Caffe network.

From top to bottom: the ResNet (`trunk`), the proposal network, the head that describes a proposal,
and `C4Detector`, which joins them.

The ResNet is that of He et al. 2016 with MSRA's first details. Two of them differ from
torchvision's ResNet, whose weights therefore do not fit: the stride of a stage is in its first
1 x 1 convolution, and the stem's max-pooling has no padding and keeps the last, incomplete window.
Submodules have detectron2's names, which the public conversions use.

Boxes include their last pixel: a box from 0 to 15 is 16 wide. Anchors are rounded to whole pixels.
The published weights were trained with both, so both stay.
"""

import math
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torchvision.ops import FrozenBatchNorm2d, clip_boxes_to_image, nms, roi_pool

from models.detector.selection import CHECK, RegionOutput
from pipeline.runtime.errors import WorkbenchError

MEAN = (102.9801, 115.9465, 122.7717)  # blue, green, red of 0 to 255; no division by deviations
POOL_SIZE = 14  # cells along each side of a pooled region
CHUNK = 64  # regions in res5 at a time: about 150 MB for its widest maps
EXPANSION = 4  # output channels of a block to those of its 3 x 3 convolution
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


class NormedConv(nn.Conv2d):
    """A convolution without bias, then batch normalisation with fixed statistics.

    Args:
        inside: channels of the maps it takes.
        outside: channels of those it gives.
        size: side of the kernel, odd.
        stride: in cells.
        dilation: in cells.
    """

    def __init__(
        self, inside: int, outside: int, size: int, stride: int = 1, dilation: int = 1
    ) -> None:
        padding = dilation * (size // 2)
        super().__init__(inside, outside, size, stride, padding, dilation, bias=False)
        self.norm = FrozenBatchNorm2d(outside)

    def forward(self, maps: Tensor) -> Tensor:
        """(B, inside, H, W) to (B, outside, H', W')."""
        return self.norm(super().forward(maps))


class Stem(nn.Module):
    """Images (B, 3, H, W) to maps (B, width, H', W') of stride 4."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv1 = NormedConv(3, width, 7, stride=2)

    def forward(self, images: Tensor) -> Tensor:
        """7 x 7 convolution, then 3 x 3 max-pooling of stride 2, unpadded, rounded up."""
        return F.max_pool2d(F.relu(self.conv1(images)), 3, 2, padding=0, ceil_mode=True)


class Bottleneck(nn.Module):
    """Residual block (B, inside, H, W) to (B, 4 x width, H', W'); the stride is in `conv1`.

    Args:
        inside: channels of the maps it takes.
        width: channels of its 3 x 3 convolution.
        stride: in cells.
        dilation: of its 3 x 3 convolution.
    """

    def __init__(self, inside: int, width: int, stride: int, dilation: int) -> None:
        super().__init__()
        outside = EXPANSION * width
        self.conv1 = NormedConv(inside, width, 1, stride)
        self.conv2 = NormedConv(width, width, 3, dilation=dilation)
        self.conv3 = NormedConv(width, outside, 1)
        changes = stride != 1 or inside != outside
        self.shortcut = NormedConv(inside, outside, 1, stride) if changes else None

    def forward(self, maps: Tensor) -> Tensor:
        """Three convolutions added to the input or to its projection."""
        inner = F.relu(self.conv2(F.relu(self.conv1(maps))))
        straight = maps if self.shortcut is None else self.shortcut(maps)
        return F.relu(self.conv3(inner) + straight)


def stage(inside: int, width: int, blocks: int, stride: int, dilation: int = 1) -> nn.Sequential:
    """Residual blocks, the first with the stride: (B, inside, H, W) to (B, 4 x width, H', W').

    Args:
        inside: channels of the maps it takes.
        width: channels of a 3 x 3 convolution.
        blocks: how many.
        stride: of the first, in cells.
        dilation: of all.

    Returns:
        The blocks, one after the other.
    """
    outside = EXPANSION * width
    return nn.Sequential(
        Bottleneck(inside, width, stride, dilation),
        *(Bottleneck(outside, width, 1, dilation) for _ in range(blocks - 1)),
    )


def trunk(width: int, blocks: tuple[int, int, int]) -> nn.Sequential:
    """Stem and res2 to res4: images (B, 3, H, W) to maps (B, 16 x width, H', W') of stride 16.

    Args:
        width: channels of the stem.
        blocks: how many residual blocks res2, res3 and res4 have.

    Returns:
        The layers, by the names of Caffe.
    """
    return nn.Sequential(
        OrderedDict(
            stem=Stem(width),
            res2=stage(width, width, blocks[0], stride=1),
            res3=stage(4 * width, 2 * width, blocks[1], stride=2),
            res4=stage(8 * width, 4 * width, blocks[2], stride=2),
        )
    )


class ProposalHead(nn.Module):
    """Maps (B, inside, H, W) to logits and deltas of every anchor (Ren et al. 2015 in Caffe).

    Args:
        inside: channels of the maps.
        hidden: channels of the convolution before the logits.
    """

    def __init__(self, inside: int, hidden: int) -> None:
        super().__init__()
        anchors = len(SCALES) * len(RATIOS)
        self.conv = nn.Conv2d(inside, hidden, 3, padding=1)
        self.objectness_logits = nn.Conv2d(hidden, 2 * anchors, 1)
        self.anchor_deltas = nn.Conv2d(hidden, 4 * anchors, 1)

    def forward(self, maps: Tensor) -> tuple[Tensor, Tensor]:
        """Logits (B, 24, H, W), the background's of all anchors before the objects', and deltas
        (B, 48, H, W).
        """
        hidden = F.relu(self.conv(maps))
        return self.objectness_logits(hidden), self.anchor_deltas(hidden)


class ProposalNetwork(nn.Module):
    """Proposals of one image, best first.

    Args:
        inside: channels of the maps.
        sizes: numbers of proposals, and their least side.
    """

    def __init__(self, inside: int, sizes: C4Sizes) -> None:
        super().__init__()
        self.rpn_head = ProposalHead(inside, sizes.hidden)
        self.sizes = sizes

    def forward(self, maps: Tensor, height: int, width: int, scale: float) -> Tensor:
        """Maps to boxes.

        Args:
            maps: (1, inside, H, W).
            height: of the scaled image in pixels.
            width: of the scaled image in pixels.
            scale: its size to that of the image as given.

        Returns:
            (P, 4) in pixels of the scaled image, inside it.

        Raises:
            RegionError: values that are not finite.
        """
        logits, deltas = self.rpn_head(maps)
        if not bool(torch.isfinite(logits).all() & torch.isfinite(deltas).all()):
            raise WorkbenchError("the detector's proposals are not finite", CHECK)
        scores = object_scores(logits)
        boxes = decode(anchors(maps.shape[-2], maps.shape[-1], maps.device), rows(deltas, 4))
        inside = clip_boxes_to_image(boxes, (height - 1, width - 1))
        return self.best(inside, scores, self.sizes.smallest * scale)

    def best(self, boxes: Tensor, scores: Tensor, smallest: float) -> Tensor:
        """The boxes that are large enough and survive.

        Args:
            boxes: (N, 4) in pixels of the scaled image.
            scores: (N,).
            smallest: side in pixels of the scaled image that a box needs.

        Returns:
            (P, 4), best first.
        """
        sides = boxes[:, 2:] - boxes[:, :2]
        large = ((sides > 0) & (sides + 1 >= smallest)).all(1)
        boxes = boxes[large]
        scores = scores[large]
        order = scores.argsort(descending=True, stable=True)[: self.sizes.candidates]
        boxes = boxes[order]
        # Ends moved by one pixel give torchvision's IoU the sides that include the last pixel.
        ends = boxes + boxes.new_tensor([0, 0, 1, 1])
        kept = nms(ends, scores[order], self.sizes.proposal_iou)
        return boxes[kept[: self.sizes.proposals]]


def rows(maps: Tensor, values: int) -> Tensor:
    """The values of every anchor, anchors of a place side by side.

    Args:
        maps: (1, A x values, H, W).
        values: how many an anchor has.

    Returns:
        (H x W x A, values).
    """
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
    """The anchors of every place of a map, row by row.

    Args:
        height: of the map, places.
        width: of the map, places.
        device: where they are made.

    Returns:
        (H x W x 12, 4) boxes in pixels of the scaled image.
    """
    down = torch.arange(height, device=device, dtype=torch.float32) * STRIDE
    across = torch.arange(width, device=device, dtype=torch.float32) * STRIDE
    y, x = torch.meshgrid(down, across, indexing="ij")
    shifts = torch.stack([x, y, x, y], dim=-1)
    return (shifts[:, :, None] + cell_anchors().to(device)).reshape(-1, 4)


def decode(boxes: Tensor, deltas: Tensor) -> Tensor:
    """Boxes moved and grown as the network says (Girshick 2015).

    Args:
        boxes: (N, 4) x1, y1, x2, y2, the last pixel inside.
        deltas: (N, 4) shifts of the centre in sides, and logs of the growth of both sides.

    Returns:
        (N, 4) boxes.
    """
    sides = boxes[:, 2:] - boxes[:, :2] + 1
    centres = boxes[:, :2] + sides / 2 + deltas[:, :2] * sides
    half = sides * deltas[:, 2:].clamp(max=LARGEST).exp() / 2
    return torch.cat([centres - half, centres + half], dim=1)


class RegionHead(nn.Module):
    """Features, class and attribute scores of boxes on res4's maps.

    Args:
        inside: channels of res4.
        blocks: of res5.
        objects: C.
        attributes: A, 0 for no such branch.
        sizes: of the attribute branch.
    """

    def __init__(
        self, inside: int, blocks: int, objects: int, attributes: int, sizes: C4Sizes
    ) -> None:
        super().__init__()
        self.res5 = stage(inside, inside // 2, blocks, stride=1, dilation=2)
        self.box_predictor = Predictor(2 * inside, objects, attributes, sizes)

    def forward(self, maps: Tensor, boxes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """What the head says of some boxes.

        Args:
            maps: (1, inside, H, W) of res4.
            boxes: (P, 4) in pixels of the scaled image.

        Returns:
            Features (P, D), object scores (P, C + 1) and attribute scores (P, A).
        """
        features = self.features(maps, boxes)
        objects, attributes = self.box_predictor(features)
        return features, objects, attributes

    def features(self, maps: Tensor, boxes: Tensor) -> Tensor:
        """Features of boxes: max-pooled to 14 x 14 cells, through res5, averaged over the cells.

        Args:
            maps: (1, inside, H, W) of res4.
            boxes: (P, 4) in pixels of the scaled image.

        Returns:
            (P, D).
        """
        features = []
        for chunk in boxes.split(CHUNK):
            cells = roi_pool(maps, [chunk], POOL_SIZE, 1 / STRIDE)
            features.append(self.res5(cells).mean((2, 3)))
        return torch.cat(features)


class Predictor(nn.Module):
    """Class scores of a region, and attribute scores from its feature and best class.

    Column 0 of the layers is "background" or "no attribute".

    Args:
        width: D.
        objects: C.
        attributes: A, 0 for no such branch.
        sizes: of the attribute branch.
    """

    def __init__(self, width: int, objects: int, attributes: int, sizes: C4Sizes) -> None:
        super().__init__()
        self.attributes = attributes
        self.cls_score = nn.Linear(width, objects + 1)
        if attributes:
            self.cls_embed = nn.Embedding(objects + 1, sizes.embedding)
            self.attr_linear1 = nn.Linear(width + sizes.embedding, sizes.attribute_hidden)
            self.attr_linear2 = nn.Linear(sizes.attribute_hidden, attributes + 1)

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """(P, D) to softmax scores (P, C + 1) and (P, A), the latter without "no attribute"."""
        logits = self.cls_score(features)
        objects = logits.softmax(1)
        if not self.attributes:
            return objects, features.new_zeros(len(features), 0)
        joined = torch.cat([features, self.cls_embed(logits.argmax(1))], dim=1)
        attributes = self.attr_linear2(F.relu(self.attr_linear1(joined))).softmax(1)
        return objects, attributes[:, 1:]


class C4Detector(nn.Module):
    """Images to proposals with features, class scores (C) and attribute scores (A, may be 0).

    State names are those of MILVLG's conversion (models.detector.c4_weights), without its box
    refinement: the published features are those of the proposals as they are.

    Args:
        object_names: C, without background.
        attribute_names: A, without "no attribute", may be empty.
        sizes: of C4Sizes; those left out are the paper's.
    """

    architecture = "c4_resnet101"
    last_pixel = True  # x2 and y2 of its boxes name their last pixel, as in Caffe

    def __init__(
        self,
        object_names: Sequence[str],
        attribute_names: Sequence[str],
        **sizes: Any,
    ) -> None:
        super().__init__()
        self.object_names = tuple(object_names)
        self.attribute_names = tuple(attribute_names)
        self.sizes = C4Sizes(**sizes)
        width = self.sizes.width
        blocks = self.sizes.blocks
        inside = 4 * EXPANSION * width  # channels of res4
        self.region_dim = 2 * inside
        self.backbone = trunk(width, (blocks[0], blocks[1], blocks[2]))
        self.proposal_generator = ProposalNetwork(inside, self.sizes)
        self.roi_heads = RegionHead(
            inside, blocks[3], len(self.object_names), len(self.attribute_names), self.sizes
        )

    @torch.no_grad()
    def regions(self, images: Sequence[Tensor]) -> list[RegionOutput]:
        """All proposals of every image, best first, boxes in pixels of the image as given. images:
        uint8 RGB (3, H, W), any sizes, on the model's device; they pass one at a time."""
        outputs = []
        for image in images:
            pixels, scale = self.scaled(image)
            maps = self.backbone(pixels)
            height, width = pixels.shape[-2:]
            boxes = self.proposal_generator(maps, height, width, scale)
            features, objects, attributes = self.roi_heads(maps, boxes)
            outputs.append(RegionOutput(boxes / scale, features, objects, attributes))
        return outputs

    def scaled(self, image: Tensor) -> tuple[Tensor, float]:
        """uint8 RGB (3, H, W) to BGR (1, 3, H', W') without its mean, and the scale. The short side
        becomes short_side, unless the long one would exceed long_side."""
        short, long = sorted(image.shape[-2:])
        scale = self.sizes.short_side / short
        if round(scale * long) > self.sizes.long_side:
            scale = self.sizes.long_side / long
        pixels = image.flip(0).float() - image.new_tensor(MEAN, dtype=torch.float32)[:, None, None]
        size = [max(round(side * scale), 1) for side in image.shape[-2:]]
        return F.interpolate(pixels[None], size=size, mode="bilinear"), scale
