"""How well a score file ranks, and what random rankings of the same queries reach."""

import numpy as np

from pipeline.evaluation.figures import measure, summarise
from pipeline.evaluation.score_file import SplitScores

DRAWS = 200


def rsum_of(split: SplitScores) -> float:
    return rsum(split, split.scores)


def rsum(split: SplitScores, scores: np.ndarray) -> float:
    measured = measure(scores, np.array(split.image_groups), np.array(split.caption_groups))
    return summarise(measured)["rsum"]


def beyond_chance(split: SplitScores) -> float:
    """The rsum that lies four standard deviations above the mean of random rankings."""
    random = np.random.default_rng(0)
    shape = split.scores.shape
    drawn = [rsum(split, random.random(shape, np.float32)) for _ in range(DRAWS)]
    return float(np.mean(drawn) + 4 * np.std(drawn))
