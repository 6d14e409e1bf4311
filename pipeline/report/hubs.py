"""Hubs as the report shows them: shares for a bar, and the counts of the kNN-margin paper."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pipeline.evaluation.hubness import Hubness, pairs_table
from pipeline.scores.ranking import DIRECTIONS, Direction

# Of 25,000 pairs of MS-COCO in percent, images as the nearest of captions (table 5).
PUBLISHED = {"0": 79.2, "1": 4.1, ">=2": 16.7, ">=5": 12.0, ">=10": 2.0}


@dataclass(frozen=True)
class Hubs:
    """The items of one direction under one model and criterion.

    Attributes:
        label: model, and criterion where it is not naive.
        direction: i2t for captions as items, t2i for images.
        found: of how many queries each is the nearest.
        pairs: of images, percent of the pairs as the kNN-margin paper counts; of captions empty.
    """

    label: str
    direction: str
    found: Hubness
    pairs: dict[str, float]


def hubs_of(
    counts: Mapping[str, Mapping[Direction, np.ndarray]], model: str, criteria: Sequence[str]
) -> list[Hubs]:
    """Hubs among the nearest items of all queries of a split, both directions, every criterion.

    Args:
        counts: criterion -> by direction, of how many queries each item is the nearest.
        model: its name.
        criteria: those to show; left out is what has no counts.
    """
    return [
        _hubs(
            Hubness(counts[criterion][direction]),
            model if criterion == "naive" else f"{model} + {criterion}",
            direction,
            len(counts[criterion]["i2t"]),
        )
        for direction in DIRECTIONS
        for criterion in criteria
        if criterion in counts
    ]


def pair_shares(counts: np.ndarray, captions: int) -> dict[str, float]:
    """`pairs_table` of images with these 1-occurrences (N,), in percent of the captions."""
    return {name: 100 * n / captions for name, n in pairs_table(counts, captions).items()}


def _hubs(found: Hubness, label: str, direction: str, captions: int) -> Hubs:
    pairs = pair_shares(found.counts, captions) if direction == "t2i" else {}
    return Hubs(label, direction, found, pairs)
