"""What a training is made of: phases with their objectives, batches, schedules of the learning
rate, judges of what validation finds, and optimisers."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch

FUSED = ("cpu", "cuda")  # kinds of devices whose optimisers have fused steps

Row = dict[str, Any]
Weights = dict[str, torch.Tensor]
# the loss of a batch, or its terms by name: their sum is the loss, and each has a column of its own
Loss = torch.Tensor | Mapping[str, torch.Tensor]


@dataclass(frozen=True)
class Watched:
    """The loss of a batch with figures of the same batch that are not minimised.

    Attributes:
        loss: what is minimised.
        figures: scalars by the column of the curve that gets their mean over an epoch's steps.
    """

    loss: Loss
    figures: Mapping[str, torch.Tensor]


# from a model and a batch on the model's device
Objective = Callable[[Any, Any], Loss | Watched]


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

    Attributes:
        name: for the curve.
        epochs: how many at most.
        objective: (model, batch) to the loss, and to what is watched beside it.
        batches: of this phase alone, None: those of `fit`.
        prepare: called on the model in training mode before every epoch, to say which parts are
            trained.
        lr: learning rate at the start of the phase, decayed by the phase's own epochs, None: that
            of the optimiser, decayed by all epochs.
        stop_below: the phase ends after three epochs whose mean loss is lower than that of the
            three before by a smaller share than this, 0 for never.
        score: of this phase alone, None: that of `fit`.
        selects: whether its epochs may be kept.
        ranks: whether its objective pushes scores apart, so that equal ones are a collapse.
    """

    name: str
    epochs: int
    objective: Objective
    batches: Batches | None = None
    prepare: Callable[[Any], None] | None = None
    lr: float | None = None
    stop_below: float = 0.0
    score: Callable[[], Any] | None = None
    selects: bool = True
    ranks: bool = True


class LearningRates(Protocol):
    """How steps are taken. clip: largest gradient norm, 0 for none; precision: fp32 or bf16
    (autocast)."""

    @property
    def clip(self) -> float: ...

    @property
    def precision(self) -> str: ...

    def share(self, epochs: int, done: int, total: int) -> float:
        """The share of the first learning rate that the next step is taken with.

        All are those of the phase where it has a rate of its own.

        Args:
            epochs: complete ones.
            done: complete steps.
            total: steps of all epochs.
        """
        ...


@dataclass(frozen=True)
class Schedule:
    """The learning rate is multiplied by lr_factor every lr_step epochs.

    Attributes:
        lr_step: epochs.
        lr_factor: what the rate is multiplied by.
        clip: as in LearningRates.
        precision: likewise.
    """

    lr_step: int
    lr_factor: float
    clip: float
    precision: str

    def share(self, epochs: int, done: int, total: int) -> float:
        """As in LearningRates: lr_factor to the power of the decays so far.

        Args:
            epochs: complete ones.
            done: complete steps, not read.
            total: steps of all epochs, not read.
        """
        return self.lr_factor ** (epochs // self.lr_step)


@dataclass(frozen=True)
class WarmupSchedule:
    """The learning rate rises in a line for `warmup` steps and falls in a line over all steps.

    For trainings of so few epochs that the rate must change with every step.

    Attributes:
        warmup: steps.
        least: share of the rate that the fall ends at.
        clip: as in LearningRates.
        precision: likewise.
    """

    warmup: int
    least: float
    clip: float
    precision: str

    def share(self, epochs: int, done: int, total: int) -> float:
        """As in LearningRates: the rise times the fall.

        Args:
            epochs: complete ones, not read.
            done: complete steps.
            total: steps of all epochs.
        """
        return min(1.0, (done + 1) / max(self.warmup, 1)) * max(self.least, 1 - done / total)


@dataclass(frozen=True)
class EpochVerdict:
    """What an epoch's validation says.

    Attributes:
        columns: for the curve.
        note: for the person watching.
        score: the weights with the largest one are kept, None: those of the last epoch.
        collapsed: in which way nothing is learnt any more, empty while something is.
        scores: of each part in the place of `score`, where `fit` has several.
    """

    columns: Row
    note: str
    score: float | None = None
    collapsed: str = ""
    scores: Mapping[str, float] = field(default_factory=dict)

    def of_part(self, name: str) -> float | None:
        """The score that decides whether a part's weights are kept."""
        return self.scores.get(name, self.score)


# By name: with what the names of a part's weights begin. Parts share no weights that are trained;
# each has a gradient norm of its own to be clipped and a best epoch of its own, so that in one loop
# they end with the weights that each would have alone.
Parts = Mapping[str, tuple[str, ...]]
WHOLE: Parts = {"": ("",)}

# from what a validation gave and the rows of the epochs before to what it says
Judge = Callable[[Any, Sequence[Row]], EpochVerdict]


@dataclass(frozen=True)
class Fitted:
    """The outcome.

    Attributes:
        weights: of the epoch that was kept, or of that of each part.
        epoch: that epoch, from 1; of parts the last.
        history: one row per epoch.
        together: validation of parts from several epochs, None where they are of one.
    """

    weights: Weights
    epoch: int
    history: list[Row]
    together: Row | None = None

    @property
    def kept(self) -> Row:
        """The validation of the weights that were kept."""
        return self.history[self.epoch - 1] if self.together is None else self.together


def optimiser(
    name: str,
    weights: Iterable[torch.nn.Parameter],
    lr: float,
    momentum: float = 0.0,
    weight_decay: float = 0.0,
) -> torch.optim.Optimizer:
    """An optimiser by name, the only place where they are made.

    Its steps are fused where torch can: one pass over the weights instead of ten, the same to
    rounding and about three times as fast.

    Args:
        name: `adam`; `adamw`, that is Adam with decoupled decay (Loshchilov and Hutter 2019); or
            `sgd`.
        weights: what is trained.
        lr: first learning rate.
        momentum: of sgd; the others do not read it.
        weight_decay: adam and sgd add weight_decay * weight to the gradient; adamw takes
            lr * weight_decay * weight from the weight.

    Raises:
        ValueError: the name is another one.
    """
    weights = list(weights)
    fused = all(weight.device.type in FUSED for weight in weights)
    if name == "sgd":
        # torch's fused steps fail on weights that join later, when the others have a momentum
        fused = fused and momentum == 0
        return torch.optim.SGD(weights, lr, momentum, weight_decay=weight_decay, fused=fused)
    if name == "adam":
        return torch.optim.Adam(weights, lr, weight_decay=weight_decay, fused=fused)
    if name == "adamw":
        return torch.optim.AdamW(weights, lr, weight_decay=weight_decay, fused=fused)
    raise ValueError(f"optimiser {name!r}: allowed are sgd, adam, adamw")
