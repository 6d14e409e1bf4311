"""The two-branch network from the architecture that its checkpoint describes."""

from collections.abc import Mapping
from typing import Any

from models.two_branch.network import TwoBranch


def sees_pixels(architecture: Mapping[str, Any]) -> bool:
    """Whether images go through an image CNN of the network's own, which was tuned with it."""
    return "image_model" in architecture


def build(**sizes: Any) -> TwoBranch:
    """The network of a checkpoint's architecture: sizes of TwoBranch and, where it has an image
    CNN, the entries `image_...` of models.backbone.image_cnn."""
    if not sees_pixels(sizes):
        return TwoBranch(**sizes)
    from models.backbone.image_cnn import with_image_cnn  # torchvision takes seconds to load

    return TwoBranch(**with_image_cnn(**sizes))
