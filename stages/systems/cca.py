"""CCA as a system: it is fitted at once by stages.fit_cca, so that here is only its scoring."""

from collections.abc import Callable

import torch

from models.cca import CCA
from pipeline.checkpoint import Checkpoint
from pipeline.score_file import SplitScores
from pipeline.scoring import score_vectors
from stages.systems import Inputs
from stages.systems.vectors import identity, open_inputs, splits


def prepare_scoring(
    checkpoint: Checkpoint, inputs: Inputs, device: torch.device
) -> Callable[[str], SplitScores]:
    """A function from a split's name to its scores; the sizes come from the checkpoint."""
    features, sentences = open_inputs(inputs)
    checkpoint.require(identity(features, sentences))
    model = checkpoint.build(CCA).to(device)
    split = splits(inputs, features, sentences)
    return lambda name: score_vectors(model, split(name), device)
