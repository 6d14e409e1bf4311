"""The two-branch network's sides as modules that can be traced."""

import torch

from models.portable.towers import CaptionTower, ImageTower, Tower
from models.two_branch.network import TwoBranch
from pipeline.storage.checkpoint import Checkpoint


def towers(checkpoint: Checkpoint) -> dict[str, Tower]:
    """Both sides: image features (B, D) and sentence vectors (B, E)."""
    network = checkpoint.build(TwoBranch)
    images, sentences = network.image_standardise, network.sentence_standardise
    return {
        "image": Tower(ImageTower(network), {"images": torch.zeros(2, len(images.mean))}),
        "caption": Tower(CaptionTower(network), {"captions": torch.zeros(2, len(sentences.mean))}),
    }
