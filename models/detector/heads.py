"""What the FPN detector does with a proposal: class, box and, beyond torchvision's, attributes."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torchvision.models.detection.faster_rcnn import FastRCNNPredictor, TwoMLPHead
from torchvision.models.detection.roi_heads import RoIHeads, fastrcnn_loss
from torchvision.ops import clip_boxes_to_image

from models.detector.pyramid import FPNSizes
from models.detector.roi_align import RoIAlign
from models.detector.selection import RegionOutput

POOL_SIZE = 7  # cells along each side of a pooled region


class AttributePredictor(nn.Module):
    """Attributes of a region from its feature and its class (Anderson et al. 2018, section 3.1).

    The class enters as an embedding beside the feature; embedding and hidden layer have the paper's
    shares of D (256 and 512 of 2048). Every attribute has a logit of its own where the paper has
    one softmax: an object may have several attributes or none.
    """

    def __init__(self, width: int, classes: int, attributes: int) -> None:
        super().__init__()
        embedding, hidden = max(width // 8, 1), max(width // 4, 1)
        self.embedding = nn.Embedding(classes, embedding)
        self.hidden = nn.Linear(width + embedding, hidden)
        self.scores = nn.Linear(hidden, attributes)

    def forward(self, features: Tensor, labels: Tensor) -> Tensor:
        """(P, D) features of regions of classes (P,) to (P, A) logits."""
        joined = torch.cat([features, self.embedding(labels)], dim=1)
        return self.scores(F.relu(self.hidden(joined)))


class AttributeRoIHeads(RoIHeads):
    """Faster R-CNN's box branch with an attribute branch beside; torchvision's weights fit."""

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
        """Loss terms (scalars) of sampled proposals: class, box and, with attributes, attributes.

        maps: of each level, (B, channels, H, W); proposals: per image (P, 4); targets: per image
        boxes (G, 4), labels (G,) from 1 and attributes (G, A) of 0 or 1; shapes: per image height
        and width. Boxes are in pixels of the network's input. The attribute term is the binary
        cross-entropy summed over attributes, averaged over the regions on objects.
        """
        chosen, matched, labels, offsets = self.select_training_samples(proposals, targets)
        features = self.vectors(maps, chosen, shapes)
        classes, boxes = fastrcnn_loss(*self.box_predictor(features), labels, offsets)
        terms = {"class": classes, "box": boxes}
        if self.attribute_predictor is not None:
            classes_of = torch.cat(labels)
            on_object = classes_of > 0
            logits = self.attribute_predictor(features[on_object], classes_of[on_object])
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
        """Features (P, D) of the boxes of all images, arguments as for `losses`."""
        return self.box_head(self.box_roi_pool(maps, boxes, shapes))

    def describe(
        self, maps: dict[str, Tensor], proposals: list[Tensor], shapes: list[tuple[int, int]]
    ) -> list[RegionOutput]:
        """All proposals (P, 4) of every image with features and scores, arguments as for `losses`.
        Boxes are refined once by the regression of their best class, whose attributes they have;
        features are those of the proposals as they were."""
        features = self.vectors(maps, proposals, shapes)
        logits, offsets = self.box_predictor(features)
        scores = logits.softmax(1)
        best = scores[:, 1:].argmax(1) + 1
        boxes = self.box_coder.decode(offsets, proposals)[torch.arange(len(best)), best]
        attributes = scores.new_zeros((len(scores), 0))
        if self.attribute_predictor is not None:
            attributes = self.attribute_predictor(features, best).sigmoid()
        counts = [len(rows) for rows in proposals]
        parts = (values.split(counts) for values in (boxes, features, scores, attributes))
        return [
            RegionOutput(clip_boxes_to_image(box, shape), *rest)
            for shape, (box, *rest) in zip(shapes, zip(*parts, strict=True), strict=True)
        ]
