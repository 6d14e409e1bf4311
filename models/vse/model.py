"""VSE as a system: image features and word ids in, a ranking loss, cosines out."""

from functools import partial

import torch

from models.base.model import Settings, TrainingJob
from models.base.preparing import pair_job
from models.base.scoring import score_vectors, split_scorer
from models.vse.network import VSE
from pipeline.inputs.files import Inputs
from pipeline.inputs.words import WordInputs


def prepare(settings: Settings, inputs: Inputs, device: torch.device) -> TrainingJob:
    return pair_job("vse", settings, WordInputs(inputs), VSE, score_vectors, device)


scorer = partial(split_scorer, WordInputs, VSE)
