"""The two sides of canonical correlation analysis as modules that can be traced."""

import torch

from models.base.towers import CaptionTower, ImageTower, Tower
from models.cca.network import CCA
from pipeline.storage.checkpoint import Checkpoint


def towers(checkpoint: Checkpoint) -> dict[str, Tower]:
    """Both sides: image features (B, Dx) and sentence vectors (B, Dy)."""
    network = checkpoint.build(CCA)
    images, sentences = len(network.image_mean), len(network.sentence_mean)
    return {
        "image": Tower(ImageTower(network), {"images": torch.zeros(2, images)}),
        "caption": Tower(CaptionTower(network), {"captions": torch.zeros(2, sentences)}),
    }
