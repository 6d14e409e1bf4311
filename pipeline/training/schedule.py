"""What decides how a training goes on: its learning rate, its best weights, its patience, and
whether it still learns anything.

Each class is one concern of `pipeline.training.trainer.Trainer` and can be read and tested alone.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

SHARE = "share"  # of the training's rate, key of a group of weights with a rate of its own
FUSED_DEVICES = ("cpu", "cuda")  # kinds of devices whose optimisers have fused steps

Row = dict[str, Any]  # of the curve: an epoch's columns by name
Weights = dict[str, Tensor]


@dataclass(frozen=True)
class Schedule:
    """The learning rate of every step, and what else a step is made by.

    The rate rises linearly for `lr_warmup_epochs`. By the schedule `step` it is multiplied by
    `lr_factor` every `lr_step` epochs. By `cosine` it falls to 0 from the end of the rise on, as
    half a period (Loshchilov and Hutter 2017, eq. 5, without restarts).

    Args:
        lr_step: Epochs after which the rate falls.
        lr_factor: What it is multiplied by, above 0; 1 leaves it as it is.
        clip: Largest norm of a step's gradient, 0 for none.
        precision: fp32, or bf16 for autocast.
        patience: Epochs without a better validation after which the rate falls at once or, at its
            last value, the phase ends, and the phase's best weights come back; None: all epochs
            are trained.
        schedule: step or cosine.
        lr_warmup_epochs: Epochs in which the rate rises from 0, step by step.
        accumulate: Batches whose gradients are averaged for a step.
    """

    lr_step: int
    lr_factor: float
    clip: float
    precision: str
    patience: int | None = None
    schedule: str = "step"
    lr_warmup_epochs: int = 0
    accumulate: int = 1

    def count_falls(self, epochs: int) -> int:
        """How often the rate has fallen after so many epochs; 0 where it changes every step."""
        falls = self.schedule == "step" and self.lr_factor < 1
        return epochs // self.lr_step if falls else 0

    def rate_factor(self, epochs: int, done: int, total: int, steps: int) -> float:
        """What the first learning rate is multiplied by for the next step.

        Args:
            epochs: Complete epochs, those that were left out included.
            done: Complete batches, likewise.
            total: Batches of all epochs that share this schedule.
            steps: Batches of an epoch.

        Returns:
            A factor in [0, 1].
        """
        rise = self.lr_warmup_epochs * steps
        risen = min(1.0, (done + 1) / rise) if rise else 1.0
        if self.schedule == "cosine" and done >= rise:
            return (1 + math.cos(math.pi * (done - rise) / (total - rise))) / 2
        return risen * self.lr_factor ** self.count_falls(epochs)


@dataclass(frozen=True)
class WarmupSchedule:
    """A rate that rises linearly for some steps and falls linearly over all steps.

    For trainings of few epochs, whose rate must change within them.

    Args:
        warmup: Steps of the rise.
        least: Factor of the rate that the fall ends at.
        clip: Largest norm of a step's gradient, 0 for none.
        precision: fp32, or bf16 for autocast.
        patience: None, since no epoch is left out.
        accumulate: Batches whose gradients are averaged for a step.
    """

    warmup: int
    least: float
    clip: float
    precision: str
    patience: None = None
    accumulate: int = 1

    def count_falls(self, epochs: int) -> int:
        """0: the rate changes with every step."""
        return 0

    def rate_factor(self, epochs: int, done: int, total: int, steps: int) -> float:
        """What the first learning rate is multiplied by for the next step: the rise times the fall.

        Args:
            epochs: Complete epochs; not read, the rate follows from the batches alone.
            done: Complete batches.
            total: Batches of all epochs.
            steps: Batches of an epoch; not read.

        Returns:
            A factor in [0, 1].
        """
        return min(1.0, (done + 1) / max(self.warmup, 1)) * max(self.least, 1 - done / total)


def build_optimiser(
    name: str,
    weights: Iterable[nn.Parameter],
    lr: float,
    momentum: float = 0.0,
    weight_decay: float = 0.0,
    spare: bool = True,
) -> torch.optim.Optimizer:
    """An optimiser by its name; the only place where they are made.

    Args:
        name: adam, adamw (decoupled decay, Loshchilov and Hutter 2019) or sgd.
        weights: What it trains; some may be frozen for a while.
        lr: First learning rate, above 0.
        momentum: Of sgd, in [0, 1); the others do not read it.
        weight_decay: At least 0.
        spare: Whether adamw decays no weights of fewer than two dimensions, which are biases,
            those of norms, and temperatures.

    Returns:
        The optimiser, with fused steps where the device has them.
    """
    weights = list(weights)
    fused = all(weight.device.type in FUSED_DEVICES for weight in weights)
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


def give_own_rate(
    optimiser: torch.optim.Optimizer, weights: Iterable[nn.Parameter], share: float
) -> None:
    """Let an optimiser train some of its weights with a rate of their own.

    Args:
        optimiser: Just built; its groups are divided.
        weights: Some of those that it trains.
        share: Their rate, as a share of that of all others.
    """
    slow = {id(weight) for weight in weights}
    for group in list(optimiser.param_groups):
        own = [weight for weight in group["params"] if id(weight) in slow]
        if own:
            group["params"] = [weight for weight in group["params"] if id(weight) not in slow]
            others = {key: value for key, value in group.items() if key != "params"}
            rate = {"lr": group["lr"] * share, SHARE: share}
            optimiser.add_param_group({"params": own} | others | rate)


def is_better(score: float | None, best: float | None) -> bool:
    """Whether a score is above the best before it; without scores the last is the best.

    Args:
        score: Of this epoch; None where nothing is scored.
        best: Of the best before; None where there is none.

    Returns:
        True for the first score, for a larger one, and without scores.
    """
    return score is None or best is None or score > best


class BestWeights:
    """The weights of the best epoch so far.

    Attributes:
        score: Of that epoch's validation; None before the first, and where nothing is scored.
        epoch: Its number, from 1; 0 before the first, and of the weights before the first step.
        weights: A copy of the module's state, on the CPU.
    """

    def __init__(self) -> None:
        self.score: float | None = None
        self.epoch = 0
        self.weights: Weights = {}

    def offer(self, score: float | None, epoch: int, module: nn.Module) -> None:
        """Keep a copy of a module's weights where they are better than all before.

        Args:
            score: Of the validation, larger is better; None: the last epoch is the best.
            epoch: Number of the epoch, from 1; 0: before the first step.
            module: Whose weights were validated.
        """
        if is_better(score, self.score):
            self.score = score
            self.epoch = epoch
            self.weights = copy_weights(module)

    def put_back(self, module: nn.Module) -> None:
        """Give a module the kept weights."""
        module.load_state_dict(self.weights)


def copy_weights(module: nn.Module) -> Weights:
    """A copy of a module's state on the CPU."""
    return {name: value.detach().cpu().clone() for name, value in module.state_dict().items()}


class Patience:
    """Whether a phase has waited long enough for a better epoch, and the weights of its best one.

    What follows a fall of the rate begins with those weights: those of the last epoch have only
    learnt the training pairs by heart, and a lower rate would keep them there. So does the next
    phase.

    Args:
        epochs: Epochs without a better one after which something must happen; None: never.
    """

    def __init__(self, epochs: int | None) -> None:
        self.epochs = epochs
        self.waited = 0
        self.best = BestWeights()  # of the running phase, whether it may be kept or not

    def begin_with(self, score: float | None, module: nn.Module) -> None:
        """Take in the weights before the first step: an epoch that is no better is waited for.

        Args:
            score: Of their validation, larger is better.
            module: Has these weights.
        """
        if self.epochs is not None:
            self.best.offer(score, 0, module)

    def has_run_out(
        self, score: float | None, epoch: int, rate_fell: bool, module: nn.Module
    ) -> bool:
        """Take in an epoch; whether it was one too many. Then the waiting begins anew.

        Args:
            score: Of its validation, larger is better.
            epoch: Its number in the training, from 1.
            rate_fell: Whether the schedule lowers the rate now: the next epochs are another try.
            module: Whose weights are kept where they are the phase's best.

        Returns:
            True where the rate should fall, or the phase end.
        """
        if self.epochs is None:
            return False
        self.best.offer(score, epoch, module)
        improved = self.best.epoch == epoch
        self.waited = 0 if improved or rate_fell else self.waited + 1
        if self.waited < self.epochs:
            return False
        self.waited = 0
        return True
