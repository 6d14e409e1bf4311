"""Faster R-CNN on a feature pyramid (Lin et al. 2017), with attributes (Anderson et al. 2018).

Small enough to be trained from nothing in two minutes on two cores, and with torchvision's names
for everything torchvision has, so that its published detector fits in strictly.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torchvision.models.detection.image_list import ImageList

from models.detector.heads import AttributeRoIHeads
from models.detector.pyramid import FPNSizes, proposal_network, pyramid
from models.detector.selection import RegionOutput

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet's RGB, as torchvision's
STRIDE = 32  # padded sizes are multiples of it, as torchvision's


class FPNDetector(nn.Module):
    """Images to proposals with features, class scores (C) and attribute scores (A, may be 0)."""

    last_pixel = False  # x2 and y2 of its boxes are their ends

    mean: Tensor
    std: Tensor

    def __init__(
        self,
        architecture: str,
        object_names: Sequence[str],
        attribute_names: Sequence[str],
        sizes: FPNSizes,
    ) -> None:
        super().__init__()
        self.object_names, self.attribute_names = tuple(object_names), tuple(attribute_names)
        self.architecture, self.sizes, self.region_dim = architecture, sizes, sizes.hidden
        self.backbone = pyramid(architecture.removeprefix("fpn_"), sizes)
        self.rpn = proposal_network(sizes)
        self.roi_heads = AttributeRoIHeads(sizes, len(object_names) + 1, len(attribute_names))
        self.register_buffer("mean", torch.tensor(MEAN).view(3, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(STD).view(3, 1, 1), persistent=False)

    def losses(
        self, images: Sequence[Tensor], targets: Sequence[Mapping[str, Tensor]]
    ) -> dict[str, Tensor]:
        """Loss terms (scalars) by name, in training mode: those of Ren et al. 2015 and the
        attributes'. images: uint8 RGB (3, H, W); targets: per image boxes (G, 4) pixels, labels
        (G,) from 1 and attributes (G, A) of 0 or 1."""
        batch, maps = self.maps(images)
        scaled = []
        for image, shape, target in zip(images, batch.image_sizes, targets, strict=True):
            scale = target["boxes"].new_tensor(ratios(image, shape))
            scaled.append({**target, "boxes": target["boxes"] * scale})
        proposals, terms = self.rpn(batch, maps, scaled)
        keys = {"objectness": "loss_objectness", "proposal_box": "loss_rpn_box_reg"}
        named = {name: terms[key] for name, key in keys.items()}
        return named | self.roi_heads.losses(maps, proposals, batch.image_sizes, scaled)

    @torch.no_grad()
    def regions(self, images: Sequence[Tensor]) -> list[RegionOutput]:
        """All proposals of every image, boxes in pixels of the image as given, refined once
        (AttributeRoIHeads.describe). images: uint8 RGB (3, H, W), any sizes, on the model's device;
        only those of one size share a batch. Call in evaluation mode."""
        outputs: dict[int, RegionOutput] = {}
        for indices in alike(images):
            batch, maps = self.maps([images[index] for index in indices])
            proposals, _ = self.rpn(batch, maps)
            regions = self.roi_heads.describe(maps, proposals, batch.image_sizes)
            scale = regions[0].boxes.new_tensor(ratios(images[indices[0]], batch.image_sizes[0]))
            rescaled = [output._replace(boxes=output.boxes / scale) for output in regions]
            outputs.update(zip(indices, rescaled, strict=True))
        return [outputs[index] for index in range(len(images))]

    def maps(self, images: Sequence[Tensor]) -> tuple[ImageList, dict[str, Tensor]]:
        """Images as the network takes them, and the pyramid's maps (B, channels, H', W') by name:
        normalised floats, the short side scaled, padded with zeros at the right and at the bottom
        to a common size, a multiple of 32."""
        ready = [self._scaled((image.float() / 255 - self.mean) / self.std) for image in images]
        shapes = [(image.shape[-2], image.shape[-1]) for image in ready]
        height, width = (-(-max(sides) // STRIDE) * STRIDE for sides in zip(*shapes, strict=True))
        padded = [F.pad(i, (0, width - i.shape[-1], 0, height - i.shape[-2])) for i in ready]
        stacked = torch.stack(padded).contiguous(memory_format=torch.channels_last)
        return ImageList(stacked, shapes), self.backbone(stacked)

    def _scaled(self, image: Tensor) -> Tensor:
        if not self.sizes.short_side:
            return image
        short, long = sorted(image.shape[-2:])
        factor = min(self.sizes.short_side / short, self.sizes.long_side / long)
        return F.interpolate(
            image[None], scale_factor=factor, mode="bilinear", recompute_scale_factor=True
        )[0]


def alike(images: Sequence[Tensor]) -> Iterable[list[int]]:
    """The indices of the images (3, H, W) of each size."""
    groups: dict[torch.Size, list[int]] = {}
    for index, image in enumerate(images):
        groups.setdefault(image.shape, []).append(index)
    return groups.values()


def ratios(image: Tensor, shape: tuple[int, int]) -> tuple[float, float, float, float]:
    """Factors for x1 y1 x2 y2 from an image (3, H, W) to its scaled height and width."""
    down, across = shape[0] / image.shape[-2], shape[1] / image.shape[-1]
    return across, down, across, down


def build_detector(
    architecture: str, object_names: Sequence[str], attribute_names: Sequence[str], **sizes: Any
) -> nn.Module:
    """A detector by name, weights random; sizes: of C4Sizes or FPNSizes."""
    if architecture == "c4_resnet101":
        from models.detector.c4 import C4Detector

        return C4Detector(object_names, attribute_names, **sizes)
    return FPNDetector(architecture, object_names, attribute_names, FPNSizes(**sizes))


def current_names(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A torchvision detector's state dict under today's names: the file of 2019 has older ones."""
    blocks = r"^(backbone\.fpn\.(?:inner|layer)_blocks\.\d+)\.(weight|bias)$"
    renamed = {}
    for name, value in state.items():
        name = re.sub(blocks, r"\1.0.\2", name)
        renamed[re.sub(r"^rpn\.head\.conv\.(weight|bias)$", r"rpn.head.conv.0.0.\1", name)] = value
    return renamed
