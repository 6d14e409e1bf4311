"""SCAN as a system: regions and word ids in, a ranking loss on attended cosines out."""

from collections.abc import Callable
from functools import partial

import torch

from models.attention.scoring import score_pairs
from models.base.model import Settings, TrainingJob
from models.base.preparing import pair_job
from models.base.scoring import split_scorer
from models.scan.network import SCAN
from pipeline.evaluation.score_file import SplitScores
from pipeline.inputs.files import Inputs
from pipeline.inputs.regions import RegionInputs, require_boxes
from pipeline.storage.checkpoint import Checkpoint


def prepare(settings: Settings, inputs: Inputs, device: torch.device) -> TrainingJob:
    config, opened = settings.config, RegionInputs(inputs)
    if config.position_gate:
        require_boxes(opened.features, "scan.position_gate")
    score = partial(score_pairs, precision=config.training.precision)
    return pair_job("scan", settings, opened, SCAN, score, device)


def scorer(
    checkpoint: Checkpoint, inputs: Inputs, device: torch.device
) -> Callable[[str], SplitScores]:
    """As models.base.scoring.split_scorer, in the precision in which the epochs were judged."""
    training = checkpoint.description.params.get("scan", {}).get("training", {})
    score = partial(score_pairs, precision=training.get("precision", "fp32"))
    return split_scorer(RegionInputs, SCAN, checkpoint, inputs, device, score)
