"""Phases of models that learn from a matrix of scores by the ranking loss of params.yaml."""

from collections.abc import Callable
from typing import Any

import torch

from models.losses.ranking import RankingLoss
from pipeline.batches import Batch
from pipeline.params import Ranking
from pipeline.training import Phase

Score = Callable[[Any, Batch], torch.Tensor]


def ranking_phases(loss: str, ranking: Ranking, epochs: int, score: Score) -> list[Phase]:
    """The chosen loss, after sum-margin epochs where they are asked for.

    loss: one of models.losses.ranking.LOSSES; epochs: of all phases together; score: from a model
    and a batch to the (B, B) scores of its images (rows) and captions.
    """
    warmup = ranking.warmup_epochs if loss != "sum_margin" else 0
    start = [_phase("sum_margin", ranking, warmup, score)] if warmup else []
    return [*start, _phase(loss, ranking, epochs - warmup, score)]


def _phase(loss: str, ranking: Ranking, epochs: int, score: Score) -> Phase:
    criterion = RankingLoss(loss, ranking.margin, ranking.k, ranking.reduction)
    return Phase(loss, epochs, lambda model, batch: criterion(score(model, batch), batch.groups))
