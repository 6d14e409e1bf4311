"""One module per model: it builds the network and its objective from params and inputs.

Looked up by name and imported only when asked for, so that a stage depends on one variant alone.
A module offers `prepare_training(params, inputs, device) -> TrainingJob` and
`prepare_scoring(checkpoint, inputs, device) -> Callable[[str], SplitScores]`; one that is not
trained by steps (cca) offers the second alone.
"""

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch
from torch import nn

from pipeline.errors import WorkbenchError
from pipeline.phases import Batches, Phase, Schedule
from pipeline.score_file import SplitScores
from stages.systems.inputs import Inputs

__all__ = ["SYSTEMS", "Inputs", "TrainingJob", "load_system"]

SYSTEMS = {
    "cca": "stages.systems.cca",
    "dp_rnn": "stages.systems.dp_rnn",
    "dual_path": "stages.systems.dual_path",
    "scan": "stages.systems.scan",
    "two_branch": "stages.systems.two_branch",
    "vse": "stages.systems.vse",
}


@dataclass(frozen=True)
class TrainingJob:
    """All that `pipeline.training.fit` needs, and what goes into the checkpoint.

    architecture, params, inputs: as in pipeline.checkpoint.Description; kept: the weights whose
    names begin so go into the checkpoint, without that beginning.
    """

    model: nn.Module
    optimiser: torch.optim.Optimizer
    phases: Sequence[Phase]
    batches: Batches
    score_validation: Callable[[], SplitScores]
    schedule: Schedule
    architecture: dict[str, Any]
    params: dict[str, Any]
    inputs: dict[str, str]
    kept: str = ""


def load_system(name: str, function: str) -> ModuleType:
    """The module of a model; WorkbenchError for other names and for one without the function."""
    if name not in SYSTEMS:
        raise WorkbenchError(f"model {name!r}: allowed are {', '.join(sorted(SYSTEMS))}")
    system = importlib.import_module(SYSTEMS[name])
    if not hasattr(system, function):
        raise WorkbenchError(f"model {name!r} has no {function}", f"see stages.fit_{name}")
    return system
