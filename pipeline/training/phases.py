"""Parts of a training: phases with objectives and batches, learning rates, judges, optimisers."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch

FUSED = ("cpu", "cuda")  # kinds of devices whose optimisers have fused steps

Row = dict[str, Any]
Weights = dict[str, torch.Tensor]
# the loss of a batch, or its terms by name, whose sum is the loss; each has a column
Loss = torch.Tensor | Mapping[str, torch.Tensor]


@dataclass(frozen=True)
class Watched:
    """The loss of a batch with figures of the same batch that are not minimised."""

    loss: Loss
    figures: Mapping[str, torch.Tensor]


# from a model and a batch on the model's device
Objective = Callable[[Any, Any], Loss | Watched]


class Batches(Protocol):
    """What the loop needs of a sampler (pipeline.inputs.batches.PairBatches); batches have `to`."""

    steps: int

    def epoch(self, epoch: int, first: int = 0) -> Iterator[Any]: ...


@dataclass(frozen=True)
class Phase:
    """Epochs with one objective."""

    name: str
    epochs: int  # how many at most
    objective: Objective
    batches: Batches | None = None  # of this phase alone, None: those of `fit`
    # called on the model in training mode before every epoch, to freeze parts of it
    prepare: Callable[[Any], None] | None = None
    # the schedule's, over the epochs of this phase; None: the optimiser's, over those of all phases
    # without one of their own
    lr: float | None = None
    # ends the phase when the mean loss of three epochs fell by a smaller share than this; 0: never
    stop_below: float = 0.0
    score: Callable[[], Any] | None = None  # of this phase alone, None: that of `fit`
    selects: bool = True  # whether its epochs may be kept
    ranks: bool = True  # whether it pushes scores apart, so that equal ones are a collapse


@dataclass(frozen=True)
class Schedule:
    """The learning rate rises linearly for lr_warmup_epochs. By the schedule `step` it is
    multiplied by lr_factor every lr_step epochs; by `cosine` it falls to 0 from the end of the rise
    on, as half a period (Loshchilov and Hutter 2017, eq. 5, without restarts)."""

    lr_step: int
    lr_factor: float
    clip: float  # largest gradient norm, 0 for none
    precision: str  # fp32 or bf16 (autocast)
    # epochs without a better validation after which the learning rate falls at once or, at its last
    # value, the phase ends; None: all epochs
    patience: int | None = None
    schedule: str = "step"
    lr_warmup_epochs: int = 0
    accumulate: int = 1  # batches whose gradients are averaged for a step

    def falls(self, epochs: int) -> int:
        """How often the rate has fallen after so many epochs; 0 where it changes with every
        step."""
        return epochs // self.lr_step if self.schedule == "step" and self.lr_factor < 1 else 0

    def share(self, epochs: int, done: int, total: int, steps: int) -> float:
        """The share of the first learning rate for the next step, after so many epochs and `done`
        of `total` batches, those of the phase where it has its own rate; steps: batches of an
        epoch."""
        rise = self.lr_warmup_epochs * steps
        risen = min(1.0, (done + 1) / rise) if rise else 1.0
        if self.schedule == "cosine" and done >= rise:
            return (1 + math.cos(math.pi * (done - rise) / (total - rise))) / 2
        return risen * self.lr_factor ** self.falls(epochs)


@dataclass(frozen=True)
class WarmupSchedule:
    """The learning rate rises linearly for `warmup` steps and falls linearly over all steps."""

    warmup: int
    least: float  # share of the rate that the fall ends at
    clip: float
    precision: str
    patience: None = None
    accumulate: int = 1

    def falls(self, epochs: int) -> int:
        """As in Schedule."""
        return 0

    def share(self, epochs: int, done: int, total: int, steps: int) -> float:
        """As in Schedule: the rise times the fall."""
        return min(1.0, (done + 1) / max(self.warmup, 1)) * max(self.least, 1 - done / total)


@dataclass(frozen=True)
class EpochVerdict:
    columns: Row
    note: str
    score: float | None = None  # the weights with the largest are kept; None: of the last epoch
    collapsed: str = ""  # in which way nothing is learnt any more, empty while something is
    scores: Mapping[str, float] = field(default_factory=dict)  # of parts, instead of `score`


# By name: prefixes of a part's weights. Each part has its own gradient norm and its own best epoch,
# so that parts trained in one loop end with the weights that each would have alone.
Parts = Mapping[str, tuple[str, ...]]
WHOLE: Parts = {"": ("",)}

# from a validation's scores and the rows of the epochs before to a verdict
Judge = Callable[[Any, Sequence[Row]], EpochVerdict]


@dataclass(frozen=True)
class Fitted:
    """The weights that were kept, and a row per epoch."""

    weights: Weights
    epoch: int  # of the weights, from 1; of several parts the last
    history: list[Row]
    together: Row | None = None  # validation of parts of several epochs, None where they are of one

    @property
    def kept(self) -> Row:
        return self.history[self.epoch - 1] if self.together is None else self.together


def optimiser(
    name: str,
    weights: Iterable[torch.nn.Parameter],
    lr: float,
    momentum: float = 0.0,
    weight_decay: float = 0.0,
    spare: bool = True,
) -> torch.optim.Optimizer:
    """An optimiser by name, the only place where they are made: adam, adamw (decoupled decay,
    Loshchilov and Hutter 2019) or sgd, which alone reads the momentum. spare: adamw decays no
    weights of fewer than two dimensions, which are biases, those of norms, and temperatures."""
    weights = list(weights)
    fused = all(weight.device.type in FUSED for weight in weights)
    if name == "sgd":
        # torch's fused steps fail on weights that join later, when the others have a momentum
        fused = fused and momentum == 0
        return torch.optim.SGD(weights, lr, momentum, weight_decay=weight_decay, fused=fused)
    if name == "adam":
        return torch.optim.Adam(weights, lr, weight_decay=weight_decay, fused=fused)
    spared = [weight for weight in weights if spare and weight.ndim < 2]
    decayed = [weight for weight in weights if not (spare and weight.ndim < 2)]
    groups: list[dict[str, Any]] = [{"params": decayed}, {"params": spared, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr, weight_decay=weight_decay, fused=fused)
