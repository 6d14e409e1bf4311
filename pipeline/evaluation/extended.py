"""The same scores measured by extended positives: pairs beside those that were collected together.

ECCV Caption (Chun et al. 2022) and CxC (Parekh et al. 2021) list captions of MS-COCO's test images
that also fit other images. Only queries that a list judges are measured, each against all items.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeline.evaluation.bootstrap import MeasuredFold, summarised
from pipeline.evaluation.columns import EXTENDED
from pipeline.evaluation.figures import Measured, average, extended_chance, rounded
from pipeline.runtime.errors import WorkbenchError
from pipeline.scores.positives import Relevance
from pipeline.scores.ranking import DIRECTIONS, Direction


@dataclass(frozen=True, eq=False)
class JudgedFold:
    """Queries of one fold that have positives in it, by direction."""

    pairs: Relevance  # among the images and captions of the fold
    queries: dict[Direction, np.ndarray]  # (Q,) their row numbers in the split, ascending
    groups: dict[Direction, np.ndarray]  # (Q,) their group numbers 0 ... G - 1


@dataclass(frozen=True)
class Extended:
    """What one model reaches on one split by extended positives."""

    positives: str  # name of their list
    pairs: int
    # criterion -> figures as `figures.average` gives, of the metrics EXTENDED
    metrics: dict[str, dict[str, Any]]
    intervals: dict[str, dict[str, Any]]  # the same with [low, high], empty without resamples
    # criterion -> what the judged queries reach, by direction
    measured: dict[str, dict[Direction, Measured]]
    # (Q,) their row numbers in the split, by direction, ascending
    queries: dict[Direction, np.ndarray]
    chance: dict[str, Any]  # figures of random scores

    def summary(self) -> dict[str, Any]:
        """What metrics/<model>.json has under `extended`."""
        queries = {way: len(numbers) for way, numbers in self.queries.items()}
        said = {"positives": self.positives, "pairs": self.pairs, "queries": queries}
        return {**said, **self.metrics}


def judged_fold(
    relevance: Relevance,
    rows: Mapping[Direction, np.ndarray],
    codes: Mapping[Direction, np.ndarray],
) -> JudgedFold:
    """The fold's queries with positives in it; WorkbenchError without any in a direction. rows:
    numbers (n,) of its images and captions; codes: group numbers of the split's, (N,) and (M,)."""
    pairs = relevance.inside(rows["i2t"], rows["t2i"])
    queries = {way: rows[way][pairs.positives(way).queries] for way in DIRECTIONS}
    for way, what in zip(DIRECTIONS, ("image", "caption"), strict=True):
        if not len(queries[way]):
            raise WorkbenchError(
                f"corpus.positives = {relevance.name}: no pair for any {what} query among "
                f"{len(rows['i2t']):,} images and {len(rows['t2i']):,} captions of the test split",
                "evaluate more images at once (evaluation.folds, evaluation.subset), or set "
                "corpus.positives: none",
            )
    judged = [codes[way][queries[way]] for way in DIRECTIONS]
    _, numbers = np.unique(np.concatenate(judged), return_inverse=True)
    groups = dict(zip(DIRECTIONS, np.split(numbers, [len(judged[0])]), strict=True))
    return JudgedFold(pairs, queries, groups)


def extended_of(
    folds: Sequence[JudgedFold],
    found: Mapping[str, Sequence[MeasuredFold]],
    resamples: int,
    confidence: float,
    seed: int,
) -> Extended:
    """Figures by criterion; found: what the judged queries of each fold reach."""
    rows = {way: np.concatenate([fold.queries[way] for fold in folds]) for way in DIRECTIONS}
    figures, intervals, measured = summarised(found, rows, resamples, confidence, seed, EXTENDED)
    return Extended(
        positives=folds[0].pairs.name,
        pairs=sum(len(fold.pairs.grades) for fold in folds),
        metrics=figures,
        intervals=intervals,
        measured=measured,
        queries={way: np.sort(numbers) for way, numbers in rows.items()},
        chance=rounded(average([extended_chance(fold.pairs) for fold in folds])),
    )
