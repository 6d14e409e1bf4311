"""The dual path from the architecture that its checkpoint describes."""

from typing import Any

from models.backbone.image_cnn import image_side
from models.dual_path.network import DualPath


def build(slots: int = 0, **sizes: Any) -> DualPath:
    """The network of a checkpoint's architecture: sizes of DualPath, and the entries `image_...` of
    models.backbone.image_cnn.image_side; slots, words that a caption may have, are not read."""
    of_images = {name for name in sizes if name.startswith("image_")} - {"image_dim"}
    side = image_side(**{name: sizes.pop(name) for name in of_images})
    return DualPath(**sizes, **side)
