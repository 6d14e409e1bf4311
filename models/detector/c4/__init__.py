"""The bottom-up detector of Anderson et al. 2018: Faster R-CNN on ResNet-101's res4 ("C4"). Only
its forward pass: weights come from a file. Everything is as in the authors' Caffe network."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torchvision.ops import roi_pool

from models.detector.c4.backbone import EXPANSION, stage, trunk
from models.detector.c4.proposals import STRIDE, C4Sizes, ProposalNetwork
from models.detector.selection import RegionOutput

MEAN = (102.9801, 115.9465, 122.7717)  # blue, green, red of 0 to 255; no division by deviations
POOL_SIZE = 14  # cells along each side of a pooled region
CHUNK = 64  # regions in res5 at a time: about 150 MB for its widest maps


class C4Detector(nn.Module):
    """Images to proposals with features, class scores (C) and attribute scores (A, may be 0)."""

    architecture = "c4_resnet101"
    last_pixel = True  # x2 and y2 of its boxes name their last pixel, as in Caffe

    def __init__(
        self,
        object_names: Sequence[str],
        attribute_names: Sequence[str],
        **sizes: Any,
    ) -> None:
        super().__init__()
        self.object_names, self.attribute_names = tuple(object_names), tuple(attribute_names)
        self.sizes = C4Sizes(**sizes)
        width, blocks = self.sizes.width, self.sizes.blocks
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
            boxes = self.proposal_generator(maps, *pixels.shape[-2:], scale)
            outputs.append(RegionOutput(boxes / scale, *self.roi_heads(maps, boxes)))
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


class RegionHead(nn.Module):
    """Features, class and attribute scores of boxes on res4's maps."""

    def __init__(
        self, inside: int, blocks: int, objects: int, attributes: int, sizes: C4Sizes
    ) -> None:
        super().__init__()
        self.res5 = stage(inside, inside // 2, blocks, stride=1, dilation=2)
        self.box_predictor = Predictor(2 * inside, objects, attributes, sizes)

    def forward(self, maps: Tensor, boxes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Maps (1, inside, H, W) and boxes (P, 4), pixels of the scaled image, to features (P, D),
        object scores (P, C + 1) and attribute scores (P, A)."""
        features = self.features(maps, boxes)
        return features, *self.box_predictor(features)

    def features(self, maps: Tensor, boxes: Tensor) -> Tensor:
        """(P, D): max-pooled to 14 x 14 cells, through res5, averaged over the cells."""
        parts = (roi_pool(maps, [b], POOL_SIZE, 1 / STRIDE) for b in boxes.split(CHUNK))
        return torch.cat([self.res5(cells).mean((2, 3)) for cells in parts])


class Predictor(nn.Module):
    """Class scores of a region, and attribute scores from its feature and best class. Column 0 of
    the layers is "background" or "no attribute"."""

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
