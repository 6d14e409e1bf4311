"""The ranking losses, by the name that `loss` of params.yaml gives them.

A loss is a models.losses.ranking.RankingLoss in a file of its name. Its parameters, if it has any,
are trained with the model's. `reference` in its file is the same from loops over pairs, in Python
floats: what the tests compare every loss with. To add one: a file like those here, and its line in
LOSSES.
"""

import importlib
import inspect
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from models.losses.ranking import RankingLoss

# Named, not imported: a stage that only checks a name does not wait for torch.
LOSSES = {
    "sum_margin": "models.losses.sum_margin:SumMargin",
    "max_margin": "models.losses.max_margin:MaxMargin",
    "knn_margin": "models.losses.knn_margin:KNNMargin",
    "infonce": "models.losses.infonce:InfoNCE",
}


def loss_class(name: str) -> "type[RankingLoss]":
    """The class of a loss; ValueError for a name that is not in LOSSES."""
    if name not in LOSSES:
        raise ValueError(f"loss {name!r}: allowed are {', '.join(LOSSES)}")
    module, kind = LOSSES[name].split(":")
    found: type[RankingLoss] = getattr(importlib.import_module(module), kind)
    return found


def make_loss(name: str, **settings: Any) -> "RankingLoss":
    """The loss `name` with those of the settings that its constructor names.

    settings: of all losses together (margin, k, temperature), since any of them may be chosen.
    Raises ValueError for another name, and when a setting that it reads is missing.
    """
    kind = loss_class(name)
    read = list(inspect.signature(kind).parameters)
    missing = [key for key in read if key not in settings]
    if missing:
        raise ValueError(f"loss {name!r} needs {', '.join(missing)}")
    return kind(**{key: settings[key] for key in read})
