"""What a training is made of: phases with their objectives, batches, and a schedule of the rate."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from pipeline.scores.file import SplitScores
from pipeline.training.curve import Row

# from a model and a batch on the model's device to a scalar
Objective = Callable[[Any, Any], torch.Tensor]
Weights = dict[str, torch.Tensor]


class Movable(Protocol):
    """What the loop needs of a batch."""

    def to(self, device: torch.device) -> Any: ...


class Batches(Protocol):
    """What the loop needs of a sampler (pipeline.inputs.batches.PairBatches)."""

    steps: int

    def epoch(self, epoch: int, first: int = 0) -> Iterator[Movable]: ...


@dataclass(frozen=True)
class Phase:
    """Epochs with one objective.

    name: for the curve; epochs: how many at most; objective: (model, batch) to a scalar.
    batches, score: of this phase alone, None: those of `fit`; prepare: called on the model in
    training mode before every epoch, to say which parts are trained; lr: learning rate at the
    start of the phase, decayed by the phase's own epochs, None: that of the optimiser, decayed by
    all epochs; stop_below: the phase ends after three epochs whose mean loss is lower than that of
    the three before by a smaller share than this, 0 for never; selects: whether its epochs may be
    kept; ranks: whether its objective pushes scores apart, so that equal ones are a collapse.
    """

    name: str
    epochs: int
    objective: Objective
    batches: Batches | None = None
    prepare: Callable[[Any], None] | None = None
    lr: float | None = None
    stop_below: float = 0.0
    score: Callable[[], SplitScores] | None = None
    selects: bool = True
    ranks: bool = True


@dataclass(frozen=True)
class Schedule:
    """How steps are taken: the learning rate is multiplied by lr_factor every lr_step epochs.

    clip: largest gradient norm, 0 for none; precision: fp32 or bf16 (autocast).
    """

    lr_step: int
    lr_factor: float
    clip: float
    precision: str


@dataclass(frozen=True)
class Fitted:
    """The outcome. weights: of the epoch (from 1) with the largest validation rsum; history: one
    row per epoch."""

    weights: Weights
    epoch: int
    rsum: float
    history: list[Row]


def optimiser(
    name: str,
    weights: Iterable[torch.nn.Parameter],
    lr: float,
    momentum: float,
    weight_decay: float,
) -> torch.optim.Optimizer:
    """`sgd` with momentum, or `adam`, which does not read it; ValueError for another name.

    weight_decay: added to the gradient as weight_decay * weight by both.
    """
    if name == "sgd":
        return torch.optim.SGD(weights, lr, momentum, weight_decay=weight_decay)
    if name == "adam":
        return torch.optim.Adam(weights, lr, weight_decay=weight_decay)
    raise ValueError(f"optimiser {name!r}: allowed are sgd, adam")
