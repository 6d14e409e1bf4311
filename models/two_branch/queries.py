"""Queries of the two-branch network: image features, or pixels, and sentence vectors."""

import torch

from models.base.queries import Files, VectorQueries, sentence_queries
from models.two_branch.network import build, sees_pixels
from pipeline.storage.checkpoint import Checkpoint

BESIDE = ("encoder", "image_network")


def queries(files: Files, checkpoint: Checkpoint, device: torch.device) -> VectorQueries:
    """As models.base.queries.sentence_queries; of pixels, where the network was tuned on them."""
    sizes, pixels = checkpoint.description.architecture, None
    if sees_pixels(sizes):
        from models.backbone.image_cnn import pixels_of  # torchvision takes seconds to load

        pixels = pixels_of(sizes)
    return sentence_queries(build, files, checkpoint, device, pixels)
