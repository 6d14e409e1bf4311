"""Inference criteria: scores that are ranked instead of the model's own, against hubs.

In high-dimensional spaces few items are the nearest neighbour of many queries (kNN-margin paper,
section 2.3). All criteria but `naive` are transductive: they look at all queries of the set at
once, and their figures are not to be compared with those of methods that see one query at a time.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pipeline.evaluation.criteria import CRITERIA
from pipeline.evaluation.reductions import FLOAT32_LIMIT, QUERIES, largest_score
from pipeline.runtime.errors import WorkbenchError
from pipeline.scores.ranking import Direction
from pipeline.scores.tiles import Tiles, as_tiles


@dataclass(frozen=True)
class Criterion:
    """An inference criterion with its parameters; those it has no use for are ignored."""

    name: str  # of a file of pipeline/evaluation/criteria
    beta: float = 30.0  # inverse temperature of the softmaxes and of Sinkhorn, > 0
    k: int = 10  # neighbours of CSLS
    iterations: int = 20  # sweeps of Sinkhorn

    @property
    def transductive(self) -> bool:
        """Whether the score of a pair depends on the other queries of the set."""
        return bool(CRITERIA.constant(self.name, "TRANSDUCTIVE", True))

    def rescored(self, scores: np.ndarray, direction: Direction) -> np.ndarray:
        """The scores (N, M) to rank for one direction, float32; of naive the same array.
        WorkbenchError for an unknown name, as `views`, and for a k above N or M."""
        tiles = as_tiles(np.require(scores, np.float32))
        return self.views(tiles, [direction])[0].matrix()

    def views(self, scores: Tiles, directions: Sequence[Direction]) -> list[Tiles]:
        """The scores (N, M) to rank, for each direction; of naive the scores themselves. Raises
        WorkbenchError for NaN and infinity, and scores that leave float32's range on the way."""
        largest = largest_score(scores)
        # 8 covers the largest of the sums: potentials of Sinkhorn, twice the score, two terms
        if self.transductive and largest * 8 * max(1.0, self.beta) > FLOAT32_LIMIT:
            raise WorkbenchError(
                f"scores up to {largest:.3g} with inference.beta = {self.beta:g} leave the range "
                "of float32",
                "scale the scores down (cosines are meant), or use inference.criteria: [naive]",
            )
        queries = [QUERIES[way] for way in directions]
        views: list[Tiles] = CRITERIA.load(self.name)(scores, queries, self)
        return views
