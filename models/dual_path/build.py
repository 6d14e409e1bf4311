"""The dual path from the architecture that its checkpoint describes."""

from typing import Any

from models.backbone.image_cnn import with_image_cnn
from models.dual_path.network import DualPath


def build(slots: int = 0, **sizes: Any) -> DualPath:
    """The network of a checkpoint's architecture: sizes of DualPath, and the entries `image_...` of
    models.backbone.image_cnn; slots, words that a caption may have, are not read."""
    return DualPath(**with_image_cnn(**sizes))
