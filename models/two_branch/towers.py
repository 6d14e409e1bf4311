"""The two-branch network's sides as modules that can be traced."""

import torch
from PIL import Image

from models.base.towers import CaptionTower, ImageTower, Tower
from models.two_branch.network import build, sees_pixels
from pipeline.storage.checkpoint import Checkpoint


def towers(checkpoint: Checkpoint) -> dict[str, Tower]:
    """Both sides: image features (B, D), or the pixels of a network that was fine-tuned, and
    sentence vectors (B, E)."""
    network, sizes = checkpoint.build(build), checkpoint.description.architecture
    images, sentences = network.image_standardise, network.sentence_standardise
    image = Tower(ImageTower(network), {"images": torch.zeros(2, len(images.mean))})
    if sees_pixels(sizes):
        from models.backbone.image_cnn import pixels_of  # torchvision takes seconds to load

        side = int(sizes["image_crop"])
        two = torch.cat([pixels_of(sizes)(Image.new("RGB", (side, side)))] * 2)
        image = Tower(ImageTower(network), {"images": two}, largest={"images": 256})
    return {
        "image": image,
        "caption": Tower(CaptionTower(network), {"captions": torch.zeros(2, len(sentences.mean))}),
    }
