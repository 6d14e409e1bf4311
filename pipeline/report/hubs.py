"""Hubs as the report shows them: shares for a bar, and the counts of the kNN-margin paper."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pipeline.evaluation.criteria import Criterion
from pipeline.evaluation.hubness import Hubness, hubness
from pipeline.scores.ranking import DIRECTIONS

CLASSES = ("0", "1", "2 to 4", "5 to 9", "10 or more")  # of the bar: every item is in one


@dataclass(frozen=True)
class Hubs:
    """The items of one direction under one model and criterion.

    Attributes:
        label: model, and criterion where it is not naive.
        direction: i2t for captions as items, t2i for images.
        shares: percent of the items in each of CLASSES.
        table: as in `Hubness`, in items.
        skewness: as in `Hubness`.
        largest: k-occurrence of the largest hub.
    """

    label: str
    direction: str
    shares: list[float]
    table: dict[str, int]
    skewness: float
    largest: int


def hubs_of(scores: np.ndarray, model: str, criteria: Sequence[Criterion]) -> list[Hubs]:
    """Hubs among the nearest items of all queries of a split, both directions, every criterion.

    Args:
        scores: (N images, M captions) float32 of the model.
        model: its name.
        criteria: what the scores are rescored by, naive included.
    """
    return [
        _hubs(
            hubness(criterion.rescored(scores, direction), direction),
            model if criterion.name == "naive" else f"{model} + {criterion.name}",
            direction,
        )
        for direction in DIRECTIONS
        for criterion in criteria
    ]


def _hubs(found: Hubness, label: str, direction: str) -> Hubs:
    table, items = found.table, len(found.counts)
    two, five, ten = (table[name] for name in (">=2", ">=5", ">=10"))
    counts = (table["0"], table["1"], two - five, five - ten, ten)
    shares = [100 * count / items for count in counts]
    return Hubs(label, direction, shares, table, found.skewness, found.largest)
