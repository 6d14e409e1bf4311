"""Phases of models that learn by the ranking loss of params.yaml."""

from collections.abc import Callable
from typing import Any

import torch

from pipeline.training.params import RankingConfig
from pipeline.training.phases import Phase

MakeLoss = Callable[[str], Callable[..., torch.Tensor]]
Arguments = Callable[[Any, Any], tuple[torch.Tensor, ...]]


def ranking_phases(
    loss: str, ranking: RankingConfig, epochs: int, make_loss: MakeLoss, arguments: Arguments
) -> list[Phase]:
    """The chosen loss, after sum-margin epochs where they are asked for.

    loss: one of models.losses.ranking.LOSSES; epochs: of all phases together; make_loss: from the
    name of a loss to the loss; arguments: from a model and a batch to what the loss takes.
    """
    warmup = ranking.warmup_epochs if loss != "sum_margin" else 0
    phases = [("sum_margin", warmup), (loss, epochs - warmup)]
    return [_phase(name, count, make_loss(name), arguments) for name, count in phases if count]


def _phase(
    name: str, epochs: int, criterion: Callable[..., torch.Tensor], arguments: Arguments
) -> Phase:
    return Phase(name, epochs, lambda model, batch: criterion(*arguments(model, batch)))
