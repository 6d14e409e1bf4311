"""Training by ranking: which losses there are, and what they share.

A loss is a file of models/losses, and its name is what `loss` of params.yaml says. The file holds
one public class, a models.ranking.loss.RankingLoss, whose own parameters, if any, are trained with
the model's, and `reference`, the same from loops over pairs in Python floats, for the tests.
"""

import inspect
from typing import TYPE_CHECKING, Any

from pipeline.runtime.registry import ONE_CLASS, Registry

if TYPE_CHECKING:
    from models.ranking.loss import RankingLoss

LOSSES = Registry("models.losses", "ranking loss", ONE_CLASS, "one class, a RankingLoss")


def loss_class(name: str) -> "type[RankingLoss]":
    """The class of a ranking loss, its file alone imported; its arguments are the loss's settings.

    name: sum_margin (Kiros et al. 2015), max_margin (Faghri et al. 2018), knn_margin (Sun et al.
    2019), random_margin (Zheng et al. 2020), infonce (Radford et al. 2021), or of a new file.
    WorkbenchError for any other.
    """
    kind: type[RankingLoss] = LOSSES.load(name)
    return kind


def warms_up(name: str) -> bool:
    """Whether models train by sum_margin before this loss (RankingLoss); its file is only read."""
    return bool(LOSSES.constant(name, "warms_up", False))


def make_loss(name: str, **settings: Any) -> "RankingLoss":
    """The loss `name` with those of the settings (margin, k, temperature) that its constructor
    names."""
    kind = loss_class(name)
    read = inspect.signature(kind).parameters
    return kind(**{key: settings[key] for key in read if key in settings})
