"""Images as a detector or an image network sees them: boxes that it proposes, vectors of any boxes.
A view computes the maps of some images once; its boxes are in pixels of the images as given."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torchvision.ops import roi_align

from models.backbone.network import Backbone, pooled
from models.detector.c4 import C4Detector
from models.detector.fpn import FPNDetector, alike, ratios

CELLS = 7  # along each side of a pooled box
SAMPLES = 2  # points along each side of a cell


class Proposed(NamedTuple):
    """Proposals of one image, best first."""

    boxes: Tensor  # (P, 4) x1, y1, x2, y2 in pixels of the image as given
    scores: Tensor  # (P,) probability that there is any object
    # (P, D) vectors of the boxes, where whoever proposes them makes them anyway
    features: Tensor | None = None


class FPNView:
    """B images, uint8 RGB (3, H, W), in the pyramid of an FPN detector in evaluation mode; images
    of one size share a batch."""

    def __init__(self, network: FPNDetector, images: Sequence[Tensor]) -> None:
        self.network, self.count = network, len(images)
        self.groups = []
        for indices in alike(images):
            batch, maps = network.maps([images[index] for index in indices])
            scale = torch.tensor(ratios(images[indices[0]], batch.image_sizes[0]))
            self.groups.append((indices, batch, maps, scale.to(images[indices[0]].device)))

    def proposals(self) -> list[Proposed]:
        """The boxes of the proposal network in each image, of any class."""
        proposed: dict[int, Proposed] = {}
        for indices, batch, maps, scale in self.groups:
            boxes, _ = self.network.rpn(batch, maps)
            pooled = self.network.roi_heads.vectors(maps, boxes, batch.image_sizes)
            scores = 1 - self.network.roi_heads.box_predictor(pooled)[0].softmax(1)[:, 0]
            counts = [len(part) for part in boxes]
            parts = zip(indices, boxes, scores.split(counts), pooled.split(counts), strict=True)
            for index, corners, score, rows in parts:
                proposed[index] = sorted_by_score(corners / scale, score, rows)
        return [proposed[index] for index in range(self.count)]

    def features(self, boxes: Sequence[Tensor]) -> list[Tensor]:
        """Vectors (P, D) float32 of the boxes (P, 4) of each image, of the detector's box head."""
        vectors: dict[int, Tensor] = {}
        for indices, batch, maps, scale in self.groups:
            scaled = [boxes[index] * scale for index in indices]
            rows = self.network.roi_heads.vectors(maps, scaled, batch.image_sizes)
            vectors |= dict(zip(indices, rows.split([len(part) for part in scaled]), strict=True))
        return [vectors[index] for index in range(self.count)]


class C4View:
    """B images, uint8 RGB (3, H, W), in the maps of a C4 detector in evaluation mode."""

    def __init__(self, network: C4Detector, images: Sequence[Tensor]) -> None:
        self.network = network
        self.seen = []
        for image in images:
            pixels, scale = network.scaled(image)
            self.seen.append((network.backbone(pixels), pixels.shape[-2:], scale))

    def proposals(self) -> list[Proposed]:
        proposed = []
        for maps, size, scale in self.seen:
            boxes = self.network.proposal_generator(maps, *size, scale)
            features, scores, _ = self.network.roi_heads(maps, boxes)
            proposed.append(sorted_by_score(boxes / scale, 1 - scores[:, 0], features))
        return proposed

    def features(self, boxes: Sequence[Tensor]) -> list[Tensor]:
        """As in FPNView: of res5, averaged over the cells of a box."""
        seen, heads = zip(self.seen, boxes, strict=True), self.network.roi_heads
        return [heads.features(maps, corners * scale) for (maps, _, scale), corners in seen]


class NetworkView:
    """Images in the feature maps of a cut network, each box pooled from them (He et al. 2017):
    cells (P, C, 7, 7) to vectors (P, D) by the network's pool, or by `head`. inputs: B, normalised
    and scaled (3, H, W); sizes: width and height of the images as given."""

    def __init__(
        self,
        backbone: Backbone,
        head: nn.Module | None,
        inputs: Sequence[Tensor],
        sizes: Sequence[tuple[int, int]],
    ) -> None:
        self.backbone, self.head, self.sizes = backbone, head, sizes
        self.maps = [backbone.graph(image[None]) for image in inputs]

    def features(self, boxes: Sequence[Tensor]) -> list[Tensor]:
        """As in FPNView: RoIAlign of 7 x 7 cells from every layer, pooled, side by side."""
        seen = zip(boxes, self.maps, self.sizes, strict=True)
        return [torch.cat(list(self._of_layers(*image)), 1) for image in seen]

    def _of_layers(
        self, boxes: Tensor, maps: dict[str, Tensor], size: tuple[int, int]
    ) -> Iterator[Tensor]:
        for node in self.backbone.nodes:
            layer = maps[node].float()
            places = boxes.new_tensor([layer.shape[-1] / size[0], layer.shape[-2] / size[1]])
            cells = roi_align(layer, [boxes * places.tile(2)], CELLS, 1.0, SAMPLES, aligned=True)
            yield self.head(cells) if self.head else pooled(cells, self.backbone.pooling)


View = FPNView | C4View | NetworkView


def sorted_by_score(boxes: Tensor, scores: Tensor, features: Tensor) -> Proposed:
    """Proposals (P, 4), (P,), (P, D), best first; of equal ones the earlier."""
    order = scores.argsort(descending=True, stable=True)
    return Proposed(boxes[order], scores[order], features[order])


def scaled_input(
    image: Tensor, short_side: int, long_side: int, mean: Tensor, std: Tensor, bgr: bool
) -> Tensor:
    """An image scaled to a shorter side, as Fast R-CNN does (Girshick 2015), and normalised.

    Args:
        image: uint8 RGB (3, H, W).
        short_side: pixels of the shorter side, unless the longer one would exceed `long_side`.
        long_side: the most pixels of the longer side; 0 for any number.
        mean: (3, 1, 1), subtracted from values of 0 to 1.
        std: (3, 1, 1), that divides them then.
        bgr: whether the network reads blue, green, red.

    Returns:
        (3, H', W') float32.
    """
    short, long = sorted(image.shape[-2:])
    scale = short_side / short
    if long_side and round(scale * long) > long_side:
        scale = long_side / long
    size = [max(round(side * scale), 1) for side in image.shape[-2:]]
    pixels = (image.flip(0) if bgr else image).float() / 255
    resized = F.interpolate(pixels[None], size=size, mode="bilinear", antialias=True)[0]
    return (resized - mean) / std
