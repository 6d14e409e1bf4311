"""Queries of the two-branch network: image features and sentence vectors."""

import torch

from models.base.queries import Files, VectorQueries, sentence_queries
from models.two_branch.network import TwoBranch
from pipeline.storage.checkpoint import Checkpoint


def queries(files: Files, checkpoint: Checkpoint, device: torch.device) -> VectorQueries:
    """The trained model as something that can be searched with."""
    return sentence_queries(files, checkpoint, device, TwoBranch)
