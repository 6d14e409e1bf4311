"""The parts of the FPN detector before its regions, and all of its sizes."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from torch import nn
from torchvision.models import resnet
from torchvision.models.detection.anchor_utils import AnchorGenerator
from torchvision.models.detection.backbone_utils import BackboneWithFPN
from torchvision.models.detection.rpn import RegionProposalNetwork, RPNHead
from torchvision.ops.feature_pyramid_network import LastLevelMaxPool


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
    """The first stages of a torchvision ResNet with a feature pyramid, weights random."""
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
