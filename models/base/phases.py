"""Models that learn by the ranking loss of params.yaml: the loss, and the epochs of a warm-up."""

from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any

import torch
from torch import nn

from models.base.model import Settings
from models.losses import RankingLoss
from models.ranking import make_loss, warms_up
from pipeline.training.loop import fit
from pipeline.training.phases import Batches, Fitted, Phase, Schedule, optimiser
from pipeline.training.resume import ResumeFile

WARM_UP = "sum_margin"  # never collapses: all negatives push

Wrap = Callable[[RankingLoss], nn.Module]  # a ranking loss as the loss of a model's batch
Arguments = Callable[[Any, Any], tuple[Any, ...]]


class Trained(nn.Module):
    """A network with the loss it is trained by, whose own parameters are trained, too. A checkpoint
    keeps the weights whose names begin with KEPT: the network alone."""

    KEPT = "network."

    def __init__(self, network: nn.Module, loss: nn.Module) -> None:
        super().__init__()
        self.network, self.loss = network, loss


def chosen_loss(settings: Settings) -> RankingLoss:
    """The ranking loss of params.yaml with the margin of the model's section."""
    return make_loss(settings.loss, margin=settings.config.margin, **settings.ranking.model_dump())


def warm_up_epochs(settings: Settings) -> int:
    """Epochs of sum_margin before the chosen loss: none for a loss that does not collapse."""
    epochs: int = settings.config.training.warmup_epochs
    return epochs if warms_up(settings.loss) else 0


def ranking_phases(settings: Settings, wrap: Wrap, arguments: Arguments) -> list[Phase]:
    """The epochs of the chosen loss, after those of the warm-up. wrap: from a ranking loss to the
    loss of the model's batches, which takes `arguments`."""
    warm_up = warm_up_epochs(settings)
    phases = [
        Phase(settings.loss, settings.config.training.epochs - warm_up, by_own_loss(arguments))
    ]
    if warm_up:
        phases.insert(0, Phase(WARM_UP, warm_up, by_warm_up(settings, wrap, arguments)))
    return phases


def fit_by(
    settings: Settings,
    name: str,
    trained: Trained,
    phases: Sequence[Phase],
    batches: Batches,
    validate: Callable[[], Any],
    resume: ResumeFile,
    lr: float | None = None,
    **options: Any,
) -> Fitted:
    """Train the model `name` by the settings of params.yaml; the others are those of
    pipeline.training.loop.fit. lr: None for that of the settings."""
    training = settings.config.training
    # without a rate of its own it has phases with theirs
    if lr is None:
        lr = getattr(training, "lr", 1.0)
    decay = training.momentum, training.weight_decay
    learning = optimiser(training.optimiser, trained.parameters(), lr, *decay)
    rates = Schedule(**training.model_dump(include={field.name for field in fields(Schedule)}))
    parts = trained, learning, phases, batches, validate, rates, resume
    return fit(*parts, advice=advice(settings, name), **options)


def by_own_loss(arguments: Arguments) -> Callable[[Trained, Any], torch.Tensor]:
    """The objective of the loss that is part of a Trained."""
    return lambda both, batch: both.loss(*arguments(both.network, batch))


def by_warm_up(
    settings: Settings, wrap: Wrap, arguments: Arguments
) -> Callable[[Trained, Any], torch.Tensor]:
    """The objective of the warm-up, whose loss has no parameters; arguments: of ranking_phases."""
    loss = wrap(make_loss(WARM_UP, margin=settings.config.margin))
    return lambda both, batch: loss(*arguments(both.network, batch))


def advice(settings: Settings, name: str) -> str:
    """What may help a training of the model `name` that has collapsed."""
    rates = "training.lr" if hasattr(settings.config.training, "lr") else "phases.lr"
    words = [f"lower {name}.{rates}", "train with another loss"]
    if warms_up(settings.loss) and hasattr(settings.config.training, "warmup_epochs"):
        words.insert(0, f"raise {name}.training.warmup_epochs")
    return ", ".join(words[:-1]) + " or " + words[-1]
