"""VSE-infinity as a system: regions and words in, a ranking loss, cosines out."""

from typing import Any

import torch

from models.base.model import Settings, TrainingJob
from models.base.preparing import pair_job
from models.base.scoring import score_vectors, split_scorer
from models.vse_infinity.network import VSEInfinity
from pipeline.inputs.files import Inputs
from pipeline.inputs.regions import RegionInputs
from pipeline.inputs.states import StateInputs
from pipeline.storage.checkpoint import Checkpoint


def prepare(settings: Settings, inputs: Inputs, device: torch.device) -> TrainingJob:
    opened = StateInputs if settings.config.words == "transformer" else RegionInputs
    return pair_job("vse_infinity", settings, opened(inputs), VSEInfinity, score_vectors, device)


def scorer(checkpoint: Checkpoint, inputs: Inputs, device: torch.device) -> Any:
    """As models.base.scoring.split_scorer, with the kind of inputs of the training."""
    reads_states = "state_dim" in checkpoint.description.architecture
    opened = StateInputs if reads_states else RegionInputs
    return split_scorer(opened, VSEInfinity, checkpoint, inputs, device)
