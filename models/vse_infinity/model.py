"""VSE-infinity as a system: regions and word ids in, a ranking loss, cosines out."""

from functools import partial

import torch

from models.base.model import Settings, TrainingJob
from models.base.preparing import pair_job
from models.base.scoring import score_vectors, split_scorer
from models.vse_infinity.network import VSEInfinity
from pipeline.inputs.files import Inputs
from pipeline.inputs.regions import RegionInputs


def prepare(settings: Settings, inputs: Inputs, device: torch.device) -> TrainingJob:
    return pair_job(
        "vse_infinity", settings, RegionInputs(inputs), VSEInfinity, score_vectors, device
    )


scorer = partial(split_scorer, RegionInputs, VSEInfinity)
