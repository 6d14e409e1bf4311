"""Inference criteria: scores that are ranked instead of the model's own, against hubs.

In high-dimensional spaces few items are the nearest neighbour of many queries (kNN-margin paper,
section 2.3). All criteria but `naive` look at all queries of the set at once to weaken such hubs:
they are transductive, and their figures are not to be compared with those of methods that see
one query at a time.

Rescored scores are ranked within each query of the direction they were made for. They are made
tile by tile from the model's and some numbers per image and caption, but for hungarian's.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeline.evaluation.criteria import CRITERIA, is_transductive
from pipeline.evaluation.reductions import FLOAT32_LIMIT, QUERIES, largest_score
from pipeline.runtime.errors import WorkbenchError
from pipeline.scores.ranking import Direction
from pipeline.scores.tiles import Tiles, as_tiles


@dataclass(frozen=True)
class Criterion:
    """An inference criterion with its parameters; those it has no use for are ignored.

    Attributes:
        name: of a file of pipeline/evaluation/criteria.
        beta: inverse temperature of the softmaxes and of Sinkhorn, > 0.
        k: neighbours of CSLS.
        iterations: sweeps of Sinkhorn.
    """

    name: str
    beta: float = 30.0
    k: int = 10
    iterations: int = 20

    @property
    def transductive(self) -> bool:
        """Whether the score of a pair depends on the other queries of the set."""
        return is_transductive(self.name)

    def rescored(self, scores: np.ndarray, direction: Direction) -> np.ndarray:
        """The scores to rank for one direction, (N, M) float32, larger is better.

        scores: (N images, M captions) finite float32 of the model, never changed. i2t ranks
        captions for every image, t2i images for every caption. Of naive the scores themselves, of
        all others a new matrix.
        """
        tiles = as_tiles(np.require(scores, np.float32))
        return self.views(tiles, [direction])[0].matrix()

    def views(self, scores: Tiles, directions: Sequence[Direction]) -> list[Tiles]:
        """The scores to rank, for each direction; of naive the scores (N, M) themselves.

        Raises WorkbenchError for NaN and infinity, scores that leave float32's range on the way, k
        larger than the set, more pairs than hungarian can assign, or no matrix for it.
        """
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


def make_criteria(names: Sequence[str], **values: Any) -> list[Criterion]:
    """The criteria that a run is evaluated by: naive, named or not, then the others in order.

    names and values: the section `inference` of params.yaml.
    """
    return [Criterion(name, **values) for name in dict.fromkeys(["naive", *names])]
