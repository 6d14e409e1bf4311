"""Inference criteria: scores that are ranked instead of the model's own, against hubs.

In high-dimensional spaces few items are the nearest neighbour of many queries (kNN-margin paper,
section 2.3). All criteria but `naive` look at all queries of the set at once to weaken such hubs:
they are transductive, and their figures are not to be compared with those of methods that see
one query at a time.

Rescored scores are ranked within each query of the direction they were made for. They are made
tile by tile from the model's and some numbers per image and caption, but for hungarian's.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from pipeline.evaluation.assignment import assigned_scores, potentials
from pipeline.evaluation.querybank import querybank
from pipeline.evaluation.reductions import (
    CAPTIONS,
    FLOAT32_LIMIT,
    IMAGES,
    QUERIES,
    WithTerms,
    largest_score,
    log_sum_exp,
    nearest_means,
)
from pipeline.runtime.errors import WorkbenchError
from pipeline.scores.ranking import Direction
from pipeline.scores.tiles import Matrix, Rescored, Tiles, as_tiles


@dataclass(frozen=True)
class Criterion:
    """An inference criterion with its parameters; those it has no use for are ignored.

    Attributes:
        name: one of NAMES.
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
        return self.name != "naive"

    def rescored(self, scores: np.ndarray, direction: Direction) -> np.ndarray:
        """The scores to rank.

        Args:
            scores: (N images, M captions) finite float32 of the model, never changed.
            direction: i2t ranks captions for every image, t2i images for every caption.

        Returns:
            (N, M) float32, larger is better: of naive the scores themselves, of all others a new
            matrix.

        Raises:
            WorkbenchError: as `views`.
        """
        tiles = as_tiles(np.require(scores, np.float32))
        return self.views(tiles, [direction])[0].matrix()

    def views(self, scores: Tiles, directions: Sequence[Direction]) -> list[Tiles]:
        """The scores to rank, for each of some directions.

        Args:
            scores: (N images, M captions) of the model.
            directions: as in `rescored`.

        Returns:
            One for each direction: of naive the scores themselves.

        Raises:
            WorkbenchError: NaN and infinity, scores that leave float32's range on the way, k larger
                than the set, more pairs than hungarian can assign, or no matrix for it.
        """
        self._check_range(scores)
        if not self.transductive:
            return [scores for _ in directions]
        return RESCORE[self.name](scores, [QUERIES[way] for way in directions], self)

    def _check_range(self, scores: Tiles) -> None:
        largest = largest_score(scores)
        # 8 covers the largest of the sums: potentials of Sinkhorn, twice the score, two terms
        if self.transductive and largest * 8 * max(1.0, self.beta) > FLOAT32_LIMIT:
            raise WorkbenchError(
                f"scores up to {largest:.3g} with inference.beta = {self.beta:g} leave the range "
                "of float32",
                "scale the scores down (cosines are meant), or use inference.criteria: [naive]",
            )


def make_criterion(
    name: str, *, beta: float = 30.0, k: int = 10, iterations: int = 20
) -> Criterion:
    """The criterion of a name and of the section `inference` of params.yaml.

    Args:
        name: one of NAMES.
        beta: inverse temperature, > 0.
        k: neighbours of CSLS, at least 1.
        iterations: sweeps of Sinkhorn, at least 1.

    Raises:
        WorkbenchError: naming every value that is not allowed.
    """
    allowed = {
        f"criteria = {name}": (name in NAMES, f"one of {', '.join(NAMES)}"),
        f"beta = {beta:g}": (0 < beta < math.inf, "a number above 0"),
        f"k = {k}": (k >= 1, "a whole number from 1"),
        f"iterations = {iterations}": (iterations >= 1, "a whole number from 1"),
    }
    wrong = [
        f"inference.{key}: must be {what}" for key, (right, what) in allowed.items() if not right
    ]
    if wrong:
        raise WorkbenchError("; ".join(wrong))
    return Criterion(name, beta, k, iterations)


def make_criteria(
    names: Sequence[str], *, beta: float = 30.0, k: int = 10, iterations: int = 20
) -> list[Criterion]:
    """The criteria that a run is evaluated by: naive, named or not, then the others in order.

    Args:
        names: of the list `inference.criteria` of params.yaml.
        beta: as in `make_criterion`.
        k: as there.
        iterations: as there.

    Raises:
        WorkbenchError: as `make_criterion`.
    """
    return [
        make_criterion(name, beta=beta, k=k, iterations=iterations)
        for name in dict.fromkeys(["naive", *names])
    ]


# Each of the functions below takes the axes of the queries, one for each result.


def _inverted_softmax(scores: Tiles, queries: Sequence[int], criterion: Criterion) -> list[Tiles]:
    """log of exp(beta s) / sum over queries of exp(beta s), kNN-margin paper eq. 5.

    The sum holds the query itself (Smith et al. 2017); eq. 5 leaves it out. With p the softmax
    over all queries that form is p / (1 - p), which grows with p: the ranks are the same.
    """
    sums = log_sum_exp(scores, queries, criterion.beta)
    return [
        Rescored(scores, WithTerms(criterion.beta, *_item_terms(-own, axis)))
        for own, axis in zip(sums, queries, strict=True)
    ]


def _csls(scores: Tiles, queries: Sequence[int], criterion: Criterion) -> list[Tiles]:
    """2 s less the mean of the item's k nearest queries and of the query's k nearest items.

    kNN-margin paper eq. 6, Conneau et al. 2018. The same for both directions.
    """
    k, sizes = criterion.k, scores.shape
    if not 1 <= k <= min(sizes):
        raise WorkbenchError(
            f"inference.k = {k}: csls takes the k nearest of {sizes[0]} images and {sizes[1]} "
            f"captions; allowed are 1 to {min(sizes)}",
            "set inference.k in params.yaml",
        )
    of_images, of_captions = nearest_means(scores, k)
    return [Rescored(scores, WithTerms(2, -of_images, -of_captions))] * len(queries)


def _dual_softmax(scores: Tiles, queries: Sequence[int], criterion: Criterion) -> list[Tiles]:
    """log of the product of the softmaxes of beta s over images and over captions.

    The form of Rocco et al. 2018 (soft mutual nearest neighbours). Cheng et al. 2021 multiply the
    score itself with the softmax over queries; that depends on the zero of the scores and turns
    the order of negative ones around, so it is not used. The same for both directions.
    """
    beta = criterion.beta
    over_captions, over_images = log_sum_exp(scores, [CAPTIONS, IMAGES], beta)
    change = WithTerms(2 * beta, -over_captions, -over_images)
    return [Rescored(scores, change)] * len(queries)


def _querybank(scores: Tiles, queries: Sequence[int], criterion: Criterion) -> list[Tiles]:
    return querybank(scores, queries, criterion.beta)


def _sinkhorn(scores: Tiles, queries: Sequence[int], criterion: Criterion) -> list[Tiles]:
    u, v = potentials(scores, criterion.beta, criterion.iterations)
    return [Rescored(scores, WithTerms(criterion.beta, u, v))] * len(queries)


def _hungarian(scores: Tiles, queries: Sequence[int], criterion: Criterion) -> list[Tiles]:
    if not isinstance(scores, Matrix):
        raise WorkbenchError(
            "inference.criteria: hungarian assigns all pairs at once and needs the whole matrix of "
            "scores, which embeddings were kept instead of",
            "set scoring.keep: scores in params.yaml, or use sinkhorn",
        )
    matrix = scores.matrix()
    return [Matrix(assigned_scores(matrix, axis), scores.block) for axis in queries]


def _item_terms(
    term: torch.Tensor, queries: int
) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """One term per item as (terms of images, terms of captions)."""
    return (None, term) if queries == IMAGES else (term, None)


RESCORE: dict[str, Callable[[Tiles, Sequence[int], Criterion], list[Tiles]]] = {
    "inverted_softmax": _inverted_softmax,
    "csls": _csls,
    "dual_softmax": _dual_softmax,
    "querybank": _querybank,
    "sinkhorn": _sinkhorn,
    "hungarian": _hungarian,
}
NAMES = ("naive", *RESCORE)
