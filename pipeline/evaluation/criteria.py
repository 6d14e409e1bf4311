"""Inference criteria: scores that are ranked instead of the model's own, against hubs.

In high-dimensional spaces few items are the nearest neighbour of many queries (kNN-margin paper,
section 2.3). All criteria but `naive` look at all queries of the set at once to weaken such hubs:
they are transductive, and their figures are not to be compared with those of methods that see
one query at a time.

Rescored matrices are ranked within each query of the direction they were made for.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from pipeline.evaluation.assignment import assigned_scores, transport_plan
from pipeline.evaluation.reductions import (
    FLOAT32_LIMIT,
    IMAGES,
    QUERIES,
    best_along,
    checked_range,
    log_sum_exp,
    mapped,
    nearest_mean,
    row_blocks,
    shared,
    with_terms,
)
from pipeline.runtime.errors import WorkbenchError
from pipeline.scores.ranking import Direction


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
            WorkbenchError: NaN and infinity, scores that leave float32's range on the way, k larger
                than the set, more pairs than hungarian can assign.
        """
        tensor, queries = shared(scores), QUERIES[direction]
        self._check_range(tensor)
        return scores if self.name == "naive" else RESCORE[self.name](tensor, queries, self)

    def _check_range(self, scores: torch.Tensor) -> None:
        largest = max(map(abs, checked_range(scores)))
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


def _inverted_softmax(scores: torch.Tensor, queries: int, criterion: Criterion) -> np.ndarray:
    """log of exp(beta s) / sum over queries of exp(beta s), kNN-margin paper eq. 5.

    The sum holds the query itself (Smith et al. 2017); eq. 5 leaves it out. With p the softmax
    over all queries that form is p / (1 - p), which grows with p: the ranks are the same.
    """
    term = -log_sum_exp(scores, queries, criterion.beta)
    return with_terms(scores, criterion.beta, *_item_terms(term, queries))


def _csls(scores: torch.Tensor, queries: int, criterion: Criterion) -> np.ndarray:
    """2 s less the mean of the item's k nearest queries and of the query's k nearest items.

    kNN-margin paper eq. 6, Conneau et al. 2018. The same for both directions.
    """
    k, sizes = criterion.k, tuple(scores.shape)
    if not 1 <= k <= min(sizes):
        raise WorkbenchError(
            f"inference.k = {k}: csls takes the k nearest of {sizes[0]} images and {sizes[1]} "
            f"captions; allowed are 1 to {min(sizes)}",
            "set inference.k in params.yaml",
        )
    return with_terms(scores, 2, -nearest_mean(scores, 1, k), -nearest_mean(scores, 0, k))


def _dual_softmax(scores: torch.Tensor, queries: int, criterion: Criterion) -> np.ndarray:
    """log of the product of the softmaxes of beta s over images and over captions.

    The form of Rocco et al. 2018 (soft mutual nearest neighbours). Cheng et al. 2021 multiply the
    score itself with the softmax over queries; that depends on the zero of the scores and turns
    the order of negative ones around, so it is not used. The same for both directions.
    """
    beta = criterion.beta
    over_captions, over_images = log_sum_exp(scores, 1, beta), log_sum_exp(scores, 0, beta)
    return with_terms(scores, 2 * beta, -over_captions, -over_images)


def _querybank(scores: torch.Tensor, queries: int, criterion: Criterion) -> np.ndarray:
    """Dynamic inverted softmax (Bogolin et al. 2022): only queries whose nearest item is a hub.

    A query is normalised (log of exp(beta s) / sum over the bank of exp(beta s)) when its nearest
    item is the nearest of some bank query, and keeps beta s otherwise. The other queries of the
    set are each query's bank: a hub is the nearest item of two queries. With the query itself in
    its bank everything would be normalised, which is inverted_softmax. (The sum may hold it, see
    _inverted_softmax.) Of tied nearest items each counts.
    """
    hubs = (_nearest_counts(scores, queries) >= 2).float()
    active = _reaching(scores, queries, hubs)
    term = -log_sum_exp(scores, queries, criterion.beta)

    def normalised(tile: torch.Tensor, rows: slice) -> torch.Tensor:
        if queries == IMAGES:
            return (tile * criterion.beta).addcmul_(active[rows, None], term)
        return (tile * criterion.beta).addcmul_(term[rows, None], active)

    return mapped(scores, normalised)


def _nearest_counts(scores: torch.Tensor, queries: int) -> torch.Tensor:
    """Of how many queries each item is the nearest, or one of the tied nearest."""
    best, counts = best_along(scores, 1 - queries), torch.zeros(scores.shape[1 - queries])
    for rows in row_blocks(scores):
        if queries == IMAGES:
            counts += _equal(scores[rows], best[rows, None]).sum(0)
        else:
            counts[rows] += _equal(scores[rows], best).sum(1)
    return counts


def _reaching(scores: torch.Tensor, queries: int, hubs: torch.Tensor) -> torch.Tensor:
    """1 for queries of which a hub (1 in `hubs`, one number per item) is the nearest item, else 0.

    A hub is the nearest if its score equals the query's best.
    """
    best, active = best_along(scores, 1 - queries), torch.zeros(scores.shape[queries])
    for rows in row_blocks(scores):
        if queries == IMAGES:
            active[rows] = _equal(scores[rows], best[rows, None]).mul_(hubs).amax(1)
        else:
            nearest = _equal(scores[rows], best).mul_(hubs[rows, None])
            torch.maximum(active, nearest.amax(0), out=active)
    return active


def _equal(tile: torch.Tensor, best: torch.Tensor) -> torch.Tensor:
    """1 where they are equal, else 0, as float32: torch sums booleans far more slowly."""
    return torch.eq(tile, best, out=torch.empty_like(tile))


def _sinkhorn(scores: torch.Tensor, queries: int, criterion: Criterion) -> np.ndarray:
    return transport_plan(scores, criterion.beta, criterion.iterations)


def _hungarian(scores: torch.Tensor, queries: int, criterion: Criterion) -> np.ndarray:
    return assigned_scores(scores.numpy(), queries)


def _item_terms(
    term: torch.Tensor, queries: int
) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """One term per item as (terms of images, terms of captions)."""
    return (None, term) if queries == IMAGES else (term, None)


RESCORE: dict[str, Callable[[torch.Tensor, int, Criterion], np.ndarray]] = {
    "inverted_softmax": _inverted_softmax,
    "csls": _csls,
    "dual_softmax": _dual_softmax,
    "querybank": _querybank,
    "sinkhorn": _sinkhorn,
    "hungarian": _hungarian,
}
NAMES = ("naive", *RESCORE)
