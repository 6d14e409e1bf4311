"""Which views params.yaml asks for: one that proposes boxes, one that makes vectors of boxes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torchvision.models import VGG

from models.backbone.network import Backbone, BackboneError, check_known, cut, weights_digest
from models.backbone.preprocessing import preprocessing_of
from models.backbone.weights import classifier_with_weights, load_detector_body
from models.detector.fpn import FPNDetector
from models.detector.weights import load_detector
from models.phrases.views import C4View, FPNView, NetworkView, View, scaled_input
from pipeline.phrases.params import BoxFeaturesConfig, BoxNetworkConfig
from pipeline.runtime.errors import WorkbenchError


@dataclass(frozen=True)
class Describer:
    # from B images, uint8 RGB (3, H, W) on its device, to a view of them
    see: Callable[[Sequence[Tensor]], View]
    model: str
    layer: str
    weights: str  # SHA-256
    width: int  # D of a vector
    proposes: bool = False


def detector_views(path: Path, device: torch.device) -> Describer:
    """The detector of a file, which proposes boxes and describes them by its head."""
    network: Any = load_detector(path)[0]
    fpn, digest = isinstance(network, FPNDetector), weights_digest(network)
    see: Any = partial(FPNView if fpn else C4View, network.to(device).eval())
    layer = "box_head" if fpn else "res5"
    return Describer(see, network.architecture, layer, digest, network.region_dim, proposes=True)


def network_views(settings: BoxNetworkConfig, detector: Path, device: torch.device) -> Describer:
    try:
        backbone, head = _cut(settings, detector)
        backbone, head = backbone.to(device), head.to(device) if head else None
    except BackboneError as error:
        message = f"phrases.features.network: {error}"
        raise WorkbenchError(message, "change it in params.yaml") from error
    seen = preprocessing_of(settings.model, None, "center", "short_side", settings.normalisation)
    mean, std = (torch.tensor(part, device=device).view(3, 1, 1) for part in (seen.mean, seen.std))

    def see(images: Sequence[Tensor]) -> NetworkView:
        sides = settings.short_side, settings.long_side
        inputs = [scaled_input(image, *sides, mean=mean, std=std, bgr=seen.bgr) for image in images]
        return NetworkView(backbone, head, inputs, [(i.shape[-1], i.shape[-2]) for i in images])

    whole = torch.zeros(3, settings.short_side, settings.short_side, dtype=torch.uint8)
    box = torch.tensor([[0.0, 0.0, 1.0, 1.0]], device=device) * settings.short_side
    with torch.inference_mode():
        width = see([whole.to(device)]).features([box])[0].shape[1]
    digest = weights_digest(nn.ModuleList([backbone, *([head] if head else [])]))
    return Describer(see, settings.model, ",".join(settings.layers), digest, width)


def describer(settings: BoxFeaturesConfig, detector: Path, device: torch.device) -> Describer:
    if settings.source == "detector":
        return detector_views(detector, device)
    return network_views(settings.network, detector, device)


def as_tensors(pictures: Sequence[np.ndarray], device: torch.device) -> list[Tensor]:
    """Pictures (H, W, 3) uint8 RGB as tensors (3, H, W) on a device."""
    return [torch.from_numpy(image).permute(2, 0, 1).contiguous().to(device) for image in pictures]


def _cut(settings: BoxNetworkConfig, detector: Path) -> tuple[Backbone, nn.Module | None]:
    """The cut network, and its head where boxes go through the network's own layers (fc7)."""
    network = classifier_with_weights(settings.model, settings.weights)
    head = vgg_head(network, settings.layers) if settings.pool == "fc7" else None
    if head is not None:
        check_known(head, ("fc7",))
    pool = "mean" if settings.pool == "fc7" else settings.pool
    backbone, _ = cut(network, settings.layers, pool, settings.short_side)
    if settings.weights == "detector":
        load_detector_body(backbone, settings.model, detector, "phrases.features.network")
    with torch.inference_mode():
        maps = backbone.graph(torch.zeros(1, 3, settings.short_side, settings.short_side))
    nodes = zip(settings.layers, backbone.nodes, strict=True)
    flat = [name for name, node in nodes if maps[node].ndim != 4]
    if flat:
        raise BackboneError(f"layers {flat}: boxes are pooled from maps, these give vectors")
    return backbone, head


def vgg_head(network: nn.Module, layers: Sequence[str]) -> nn.Module:
    """A VGG's fully connected layers up to fc7, on 7 x 7 cells of its last map (Girshick 2015),
    which take the place of the last max-pooling: `layers` must be the map before it."""
    if not isinstance(network, VGG):
        raise BackboneError("pool fc7 is for networks of torchvision's VGG")
    last = f"features.{len(network.features) - 2}"
    if list(layers) != [last]:
        raise BackboneError(f"pool fc7 takes layers [{last}], not {list(layers)}")
    return nn.Sequential(nn.Flatten(), *list(network.classifier)[:5]).eval()
