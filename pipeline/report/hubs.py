"""Hubs as the report shows them: shares for a bar, and the counts of the kNN-margin paper."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pipeline.evaluation.hubness import Hubness, pairs_table
from pipeline.scores.ranking import DIRECTIONS, Direction

# Of 25,000 pairs of MS-COCO in percent, images as the nearest of captions (table 5).
PUBLISHED = {"0": 79.2, "1": 4.1, ">=2": 16.7, ">=5": 12.0, ">=10": 2.0}


def hubs_of(
    counts: Mapping[str, Mapping[Direction, np.ndarray]], model: str, criteria: Sequence[str]
) -> list[dict[str, Any]]:
    """Hubs of a split, both directions, every criterion. counts: criterion -> of how many queries
    each item is the nearest, (M,) for i2t, (N,) for t2i. pairs: as `pair_shares`, of images."""
    return [
        {
            "label": model if criterion == "naive" else f"{model} + {criterion}",
            "direction": way,
            "found": Hubness(own[way]),
            "pairs": {} if way == "i2t" else pair_shares(own["t2i"], len(own["i2t"])),
        }
        for way in DIRECTIONS
        for criterion in criteria
        if (own := counts.get(criterion))
    ]


def pair_shares(counts: np.ndarray, captions: int) -> dict[str, float]:
    """`pairs_table` of images with these 1-occurrences (N,), in percent of the captions."""
    return {name: 100 * n / captions for name, n in pairs_table(counts, captions).items()}
