"""Faster R-CNN on a feature pyramid (Lin et al. 2017), with attributes (Anderson et al. 2018).

Small enough to be trained from nothing in two minutes on two cores, and with torchvision's names
for everything torchvision has, so that its published detector fits in strictly. From top to bottom:
the sizes, the pyramid and the proposal network, what becomes of a proposal (class, box and, beyond
torchvision's, attributes), and `FPNDetector`, which joins them.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torchvision.models import resnet
from torchvision.models.detection.anchor_utils import AnchorGenerator
from torchvision.models.detection.backbone_utils import BackboneWithFPN
from torchvision.models.detection.faster_rcnn import FastRCNNPredictor, TwoMLPHead
from torchvision.models.detection.image_list import ImageList
from torchvision.models.detection.roi_heads import RoIHeads, fastrcnn_loss
from torchvision.models.detection.rpn import RegionProposalNetwork, RPNHead
from torchvision.ops import clip_boxes_to_image
from torchvision.ops.feature_pyramid_network import LastLevelMaxPool

from models.detector.roi_align import RoIAlign
from models.detector.selection import RegionOutput

MEAN = (0.485, 0.456, 0.406)  # of ImageNet's RGB, as torchvision's
STD = (0.229, 0.224, 0.225)  # likewise
STRIDE = 32  # padded sizes are multiples of it, as torchvision's
POOL_SIZE = 7  # cells along each side of a pooled region


@dataclass(frozen=True)
class FPNSizes:
    """Sizes of an FPN detector, as plain values that JSON holds."""

    channels: int = 64  # width of the pyramid
    hidden: int = 256  # D of the region features
    layers: int = 3  # stages of the ResNet, each with a pyramid level (strides 4, 8, 16, 32)
    pooled_level: bool = False  # one more level, max-pooled
    anchors: Sequence[Sequence[float]] = ((16.0,), (26.0,), (40.0,))  # sides in pixels, per level
    ratios: Sequence[float] = (1.0,)  # height to width
    short_side: int = 0  # of the scaled image in pixels, 0 takes images as they are
    long_side: int = 0  # upper limit, in pixels
    candidates: int = 300  # boxes per level before NMS
    proposals: int = 100  # P, boxes per image after NMS at most
    proposal_iou: float = 0.7  # threshold of NMS
    sampled: int = 32  # regions per image that are trained on
    positives: float = 0.5  # largest share of them on objects
    norm_eps: float = 1e-5  # of batch normalisation


# torchvision's fasterrcnn_resnet50_fpn; its frozen normalisation adds no epsilon.
PUBLISHED = FPNSizes(
    channels=256,
    hidden=1024,
    layers=4,
    pooled_level=True,
    anchors=((32.0,), (64.0,), (128.0,), (256.0,), (512.0,)),
    ratios=(0.5, 1.0, 2.0),
    short_side=800,
    long_side=1333,
    candidates=1000,
    proposals=1000,
    sampled=512,
    positives=0.25,
    norm_eps=0.0,
)


def pyramid(name: str, sizes: FPNSizes) -> BackboneWithFPN:
    """The first stages of a torchvision ResNet with a feature pyramid, weights random.

    Args:
        name: resnet18 or resnet50.
        sizes: number of stages, width of the pyramid, epsilon of the batch normalisation.

    Returns:
        From images (B, 3, H, W) to maps (B, channels, H', W') by the name of their level.
    """
    norm = partial(nn.BatchNorm2d, eps=sizes.norm_eps)
    body = resnet.__dict__[name](weights=None, norm_layer=norm)
    widths = [body.inplanes // 2 ** (3 - layer) for layer in range(sizes.layers)]
    layers = {f"layer{layer + 1}": str(layer) for layer in range(sizes.layers)}
    extra = LastLevelMaxPool() if sizes.pooled_level else None
    network = BackboneWithFPN(body, layers, widths, sizes.channels, extra_blocks=extra)
    if extra is None:
        network.fpn.extra_blocks = None  # torchvision reads None as "max-pooled level"
    return network


def proposal_network(sizes: FPNSizes) -> RegionProposalNetwork:
    """The region proposal network (Ren et al. 2015) of these sizes."""
    anchors = AnchorGenerator(
        tuple(map(tuple, sizes.anchors)), (tuple(sizes.ratios),) * len(sizes.anchors)
    )
    return RegionProposalNetwork(
        anchors,
        RPNHead(sizes.channels, anchors.num_anchors_per_location()[0]),
        fg_iou_thresh=0.7,
        bg_iou_thresh=0.3,
        batch_size_per_image=2 * sizes.sampled,
        positive_fraction=0.5,
        pre_nms_top_n={"training": sizes.candidates, "testing": sizes.candidates},
        post_nms_top_n={"training": sizes.proposals, "testing": sizes.proposals},
        nms_thresh=sizes.proposal_iou,
    )


class AttributePredictor(nn.Module):
    """Attributes of a region from its feature and its class (Anderson et al. 2018, section 3.1).

    The class enters as an embedding beside the feature; embedding and hidden layer have the paper's
    shares of D (256 and 512 of 2048). Every attribute has a logit of its own where the paper has
    one softmax: an object may have several attributes or none.

    Args:
        width: D of the region features.
        classes: number of object classes, with background.
        attributes: A.
    """

    def __init__(self, width: int, classes: int, attributes: int) -> None:
        super().__init__()
        embedding = max(width // 8, 1)
        hidden = max(width // 4, 1)
        self.embedding = nn.Embedding(classes, embedding)
        self.hidden = nn.Linear(width + embedding, hidden)
        self.scores = nn.Linear(hidden, attributes)

    def forward(self, features: Tensor, labels: Tensor) -> Tensor:
        """Logits of the attributes.

        Args:
            features: (P, D) of regions.
            labels: (P,) their classes, 0 for background.

        Returns:
            (P, A).
        """
        joined = torch.cat([features, self.embedding(labels)], dim=1)
        return self.scores(F.relu(self.hidden(joined)))


class AttributeRoIHeads(RoIHeads):
    """Faster R-CNN's box branch with an attribute branch beside; torchvision's weights fit.

    Args:
        sizes: of the detector.
        classes: number of object classes, with background.
        attributes: A, 0 for no attribute branch.
    """

    def __init__(self, sizes: FPNSizes, classes: int, attributes: int) -> None:
        levels = [str(level) for level in range(sizes.layers)]
        super().__init__(
            RoIAlign(levels, POOL_SIZE),
            TwoMLPHead(sizes.channels * POOL_SIZE**2, sizes.hidden),
            FastRCNNPredictor(sizes.hidden, classes),
            fg_iou_thresh=0.5,
            bg_iou_thresh=0.5,
            batch_size_per_image=sizes.sampled,
            positive_fraction=sizes.positives,
            bbox_reg_weights=None,
            score_thresh=0.0,
            nms_thresh=0.5,
            detections_per_img=100,
        )
        self.attribute_predictor = None
        if attributes:
            self.attribute_predictor = AttributePredictor(sizes.hidden, classes, attributes)

    def losses(
        self,
        maps: dict[str, Tensor],
        proposals: list[Tensor],
        shapes: list[tuple[int, int]],
        targets: list[dict[str, Tensor]],
    ) -> dict[str, Tensor]:
        """Loss terms of sampled proposals: `class`, `box` and, where there are any, `attributes`.

        The attribute term is the binary cross-entropy summed over attributes, averaged over the
        regions on objects.

        Args:
            maps: of each level, (B, channels, H, W).
            proposals: per image (P, 4) in pixels of the network's input.
            shapes: per image height and width of the network's input.
            targets: per image boxes (G, 4) in these pixels, labels (G,) from 1 and attributes
                (G, A) of 0 or 1.

        Returns:
            A scalar per term.
        """
        chosen, matched, labels, offsets = self.select_training_samples(proposals, targets)
        features = self.vectors(maps, chosen, shapes)
        logits, refinements = self.box_predictor(features)
        class_loss, box_loss = fastrcnn_loss(logits, refinements, labels, offsets)
        terms = {"class": class_loss, "box": box_loss}
        if self.attribute_predictor is not None:
            classes = torch.cat(labels)
            on_object = classes > 0
            logits = self.attribute_predictor(features[on_object], classes[on_object])
            wanted = torch.cat(
                [
                    target["attributes"][rows[label > 0]]
                    for target, rows, label in zip(targets, matched, labels, strict=True)
                ]
            )
            total = F.binary_cross_entropy_with_logits(logits, wanted, reduction="sum")
            terms["attributes"] = total / max(len(wanted), 1)
        return terms

    def vectors(
        self, maps: dict[str, Tensor], boxes: list[Tensor], shapes: list[tuple[int, int]]
    ) -> Tensor:
        """Features of boxes.

        Args:
            maps: of each level, (B, channels, H, W).
            boxes: per image (P, 4) in pixels of the network's input.
            shapes: per image height and width of the network's input.

        Returns:
            (P, D) of the boxes of all images.
        """
        return self.box_head(self.box_roi_pool(maps, boxes, shapes))

    def describe(
        self, maps: dict[str, Tensor], proposals: list[Tensor], shapes: list[tuple[int, int]]
    ) -> list[RegionOutput]:
        """All proposals of every image with features and scores.

        Boxes are refined once by the regression of their best class, whose attributes they have;
        features are those of the proposals as they were.

        Args:
            maps: of each level, (B, channels, H, W).
            proposals: per image (P, 4) in pixels of the network's input.
            shapes: per image height and width of the network's input.

        Returns:
            An output per image, boxes in pixels of the network's input.
        """
        features = self.vectors(maps, proposals, shapes)
        logits, offsets = self.box_predictor(features)
        scores = logits.softmax(1)
        best = scores[:, 1:].argmax(1) + 1
        boxes = self.box_coder.decode(offsets, proposals)[torch.arange(len(best)), best]
        attributes = scores.new_zeros((len(scores), 0))
        if self.attribute_predictor is not None:
            attributes = self.attribute_predictor(features, best).sigmoid()
        outputs = []
        start = 0
        for rows_of_image, shape in zip(proposals, shapes, strict=True):
            rows = slice(start, start + len(rows_of_image))
            clipped = clip_boxes_to_image(boxes[rows], shape)
            outputs.append(RegionOutput(clipped, features[rows], scores[rows], attributes[rows]))
            start = rows.stop
        return outputs


class FPNDetector(nn.Module):
    """Images to proposals with features, class scores (C) and attribute scores (A, may be 0).

    Args:
        architecture: fpn_resnet18 or fpn_resnet50.
        object_names: C, without background.
        attribute_names: A, may be empty.
        sizes: of pyramid, proposals and heads.
    """

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
        self.architecture = architecture
        self.object_names = tuple(object_names)
        self.attribute_names = tuple(attribute_names)
        self.sizes = sizes
        self.region_dim = sizes.hidden
        self.backbone = pyramid(architecture.removeprefix("fpn_"), sizes)
        self.rpn = proposal_network(sizes)
        self.roi_heads = AttributeRoIHeads(sizes, len(object_names) + 1, len(attribute_names))
        self.register_buffer("mean", torch.tensor(MEAN).view(3, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(STD).view(3, 1, 1), persistent=False)

    def losses(
        self, images: Sequence[Tensor], targets: Sequence[Mapping[str, Tensor]]
    ) -> dict[str, Tensor]:
        """Loss terms by name, in training mode: those of Ren et al. 2015 and the attributes'.

        Args:
            images: B, uint8 RGB (3, H, W) each, of any sizes.
            targets: per image boxes (G, 4) in pixels, labels (G,) from 1 and attributes (G, A) of 0
                or 1.

        Returns:
            Scalars.
        """
        batch, maps = self.maps(images)
        scaled = []
        for image, shape, target in zip(images, batch.image_sizes, targets, strict=True):
            scale = target["boxes"].new_tensor(ratios(image, shape))
            scaled.append({**target, "boxes": target["boxes"] * scale})
        proposals, terms = self.rpn(batch, maps, scaled)
        return {
            "objectness": terms["loss_objectness"],
            "proposal_box": terms["loss_rpn_box_reg"],
            **self.roi_heads.losses(maps, proposals, shapes=batch.image_sizes, targets=scaled),
        }

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
        height = math.ceil(max(shape[0] for shape in shapes) / STRIDE) * STRIDE
        width = math.ceil(max(shape[1] for shape in shapes) / STRIDE) * STRIDE
        padded = [
            F.pad(image, (0, width - image.shape[-1], 0, height - image.shape[-2]))
            for image in ready
        ]
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
    """How an image was scaled, as factors of x1, y1, x2, y2.

    Args:
        image: (3, H, W) as it was.
        shape: height and width of the scaled image.

    Returns:
        Scaled pixels per pixel: across, down, across, down.
    """
    down = shape[0] / image.shape[-2]
    across = shape[1] / image.shape[-1]
    return across, down, across, down


def build_detector(
    architecture: str, object_names: Sequence[str], attribute_names: Sequence[str], **sizes: Any
) -> nn.Module:
    """A detector by name, weights random.

    Args:
        architecture: fpn_resnet18, fpn_resnet50 or c4_resnet101.
        object_names: C, without background.
        attribute_names: A, may be empty.
        sizes: of FPNSizes, or of C4Sizes for c4_resnet101; those left out have its defaults.

    Returns:
        The detector; its weights are drawn from torch's global generator.
    """
    if architecture == "c4_resnet101":
        from models.detector.c4 import C4Detector

        return C4Detector(object_names, attribute_names, **sizes)
    return FPNDetector(
        architecture, object_names, attribute_names=attribute_names, sizes=FPNSizes(**sizes)
    )


def current_names(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A torchvision detector's state dict under today's names: the file of 2019 has older ones."""
    blocks = r"^(backbone\.fpn\.(?:inner|layer)_blocks\.\d+)\.(weight|bias)$"
    renamed = {}
    for name, value in state.items():
        name = re.sub(blocks, r"\1.0.\2", name)
        renamed[re.sub(r"^rpn\.head\.conv\.(weight|bias)$", r"rpn.head.conv.0.0.\1", name)] = value
    return renamed
