"""The sides of the dual path as modules that can be traced: pixels in, words in slots in."""

import torch

from models.base.towers import CaptionTower, ImageTower, Tower
from models.dual_path.network import build
from pipeline.storage.checkpoint import Checkpoint


def towers(checkpoint: Checkpoint) -> dict[str, Tower]:
    """Both sides: RGB crops (B, 3, S, S) uint8, and word ids in slots (B, slots)."""
    network, sizes = checkpoint.build(build), checkpoint.description.architecture
    side, slots = int(sizes["image_crop"]), int(sizes["slots"])
    pixels = torch.zeros((2, 3, side, side), dtype=torch.uint8)
    words = torch.zeros((2, slots), dtype=torch.int64)
    return {
        "image": Tower(ImageTower(network), {"images": pixels}, largest={"images": 256}),
        "caption": Tower(
            CaptionTower(network),
            {"captions": words},
            largest={"captions": int(sizes["vocabulary_size"])},
        ),
    }
