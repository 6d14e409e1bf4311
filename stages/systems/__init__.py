"""One module per model: it builds the network and its objective from params and inputs.

Looked up by name and imported only when asked for, so that a stage depends on one variant alone.
A module offers `prepare_training(params, inputs, device) -> TrainingJob` and
`prepare_scoring(checkpoint, inputs, device) -> Callable[[str], SplitScores]`.
"""

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import nn

from pipeline.batches import PairBatches
from pipeline.errors import WorkbenchError
from pipeline.files import sha256_file
from pipeline.score_file import SplitScores
from pipeline.training import Phase, Schedule

SYSTEMS = {"vse": "stages.systems.vse"}


@dataclass(frozen=True)
class Inputs:
    """The artefacts a model may read."""

    images: Path
    captions: Path
    features: Path
    vocabulary: Path

    def digests(self) -> dict[str, str]:
        """SHA-256 of everything in every artefact, by field and file name."""
        return {
            f"{field}/{file.name}": sha256_file(file)
            for field, path in sorted(vars(self).items())
            for file in (sorted(path.iterdir()) if path.is_dir() else [path])
        }


@dataclass(frozen=True)
class TrainingJob:
    """All that `pipeline.training.fit` needs, and what goes into the checkpoint.

    architecture, params, inputs: as in pipeline.checkpoint.Description.
    """

    model: nn.Module
    optimiser: torch.optim.Optimizer
    phases: Sequence[Phase]
    batches: PairBatches
    score_validation: Callable[[], SplitScores]
    schedule: Schedule
    architecture: dict[str, int]
    params: dict[str, Any]
    inputs: dict[str, str]


def load_system(name: str) -> ModuleType:
    """The module of a model; WorkbenchError naming the models there are for any other name."""
    if name not in SYSTEMS:
        raise WorkbenchError(f"model {name!r}: allowed are {', '.join(sorted(SYSTEMS))}")
    return importlib.import_module(SYSTEMS[name])
