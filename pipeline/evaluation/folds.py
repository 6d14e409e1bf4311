"""From the scores of a test split to metrics, ranks and confidence intervals, by protocol."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeline.evaluation.bootstrap import MeasuredFold, summarised
from pipeline.evaluation.criterion import Criterion
from pipeline.evaluation.extended import Extended, JudgedFold, extended_of, judged_fold
from pipeline.evaluation.figures import Measured, average, chance_level, rounded
from pipeline.evaluation.measure import measured_of
from pipeline.evaluation.protocol import Fold, cut_folds, protocol_name
from pipeline.evaluation.reductions import QUERIES
from pipeline.evaluation.row import Metric
from pipeline.scores.file import SplitScores
from pipeline.scores.groups import group_codes
from pipeline.scores.positives import Relevance
from pipeline.scores.ranking import DIRECTIONS, Direction
from pipeline.scores.ranks import checked_tiles, of_groups, of_positives
from pipeline.scores.tiles import Tiles


@dataclass(frozen=True)
class Evaluation:
    """What one model reaches on one split."""

    protocol: str  # "full", "1k_x5" for 5 folds of 1,000 images, or "first_1k" for the first 1,000
    # criterion -> figures as `figures.average` gives, and "transductive" where it is
    metrics: dict[str, dict[str, Any]]
    intervals: dict[str, dict[str, Any]]  # the same with [low, high], empty without resamples
    measured: dict[str, dict[Direction, Measured]]  # by criterion, of all queries in their folds
    chance: dict[str, Any]  # figures of random scores
    test_images: int | None = None  # of which the evaluated ones are the first; None: they are all
    extended: Extended | None = None  # the same over extended positives

    def summary(self) -> dict[str, Any]:
        """The content of metrics/<model>.json."""
        of = {} if self.test_images is None else {"test_images": self.test_images}
        more = {} if self.extended is None else {"extended": self.extended.summary()}
        return {**self.metrics, "protocol": self.protocol} | of | more

    def lines(self) -> list[str]:
        """For a terminal: a line per criterion, and one by extended positives."""
        lines = []
        for name, figures in self.metrics.items():
            r1 = ", ".join(f"{way} R@1 {figures[way]['r1']:.1f}" for way in DIRECTIONS)
            reached = f"rsum {figures['rsum']:.1f} (chance {self.chance['rsum']:.1f})"
            lines.append(f"{name}, {self.protocol}: {r1}, {reached}")
        if self.extended is not None:
            for name, figures in self.extended.metrics.items():
                ways = ((way, figures[way]) for way in DIRECTIONS)
                both = [f"{way} R@1 {of['r1']:.1f}, mAP@R {of['mapr']:.1f}" for way, of in ways]
                lines.append(f"{name}, {self.extended.positives}: {', '.join(both)}")
        return lines


def evaluate(
    split: SplitScores,
    folds: int,
    resamples: int,
    confidence: float,
    seed: int,
    criteria: Sequence[Criterion] = (Criterion("naive"),),
    test_images: int | None = None,
    relevance: Relevance | None = None,
    metrics: Sequence[Metric] | None = None,
) -> Evaluation:
    """Evaluate criteria by folds, figures averaged over them. resamples: bootstrap draws, 0 for no
    intervals; confidence: share of the draws inside one. test_images: of which the split's are the
    first, None: they are all. relevance: extended positives, measured beside the groups; metrics
    of the groups, None for all rows.
    WorkbenchError for folds that do not divide the images, settings that a criterion refuses, and
    scores that are not finite."""
    images, captions = group_codes(split.image_groups, split.caption_groups)
    parts = cut_folds(images, captions, folds)
    scores = checked_tiles(split.scores, len(images), len(captions))
    codes: dict[Direction, np.ndarray] = {"i2t": images, "t2i": captions}
    judged = [judged_fold(relevance, fold, codes) if relevance else None for fold in parts]
    reached = {
        criterion.name: [
            _measured(scores, criterion, fold, codes, metrics, listed)
            for fold, listed in zip(parts, judged, strict=True)
        ]
        for criterion in criteria
    }
    by_groups = {name: [both[0] for both in folds] for name, folds in reached.items()}
    rows = {way: np.concatenate([fold[way] for fold in parts]) for way in DIRECTIONS}
    draws = resamples, confidence, seed
    figures, intervals, measured = summarised(by_groups, rows, *draws, metrics)
    for criterion in criteria:
        if criterion.transductive:
            figures[criterion.name] = {"transductive": True, **figures[criterion.name]}
    levels = [chance_level(images[p["i2t"]], captions[p["t2i"]], metrics) for p in parts]
    chance = average(levels)
    cut = test_images if test_images and len(images) < test_images else None
    extended = None
    if lists := [fold for fold in judged if fold]:
        by_list = {name: [both[1] for both in folds] for name, folds in reached.items()}
        extended = extended_of(lists, by_list, *draws)
    protocol = protocol_name(len(images), folds, cut is not None)
    return Evaluation(protocol, figures, intervals, measured, rounded(chance), cut, extended)


def _measured(
    scores: Tiles,
    criterion: Criterion,
    fold: Fold,
    groups: Mapping[Direction, np.ndarray],
    metrics: Sequence[Metric] | None,
    judged: JudgedFold | None,
) -> list[MeasuredFold]:
    """What the queries of a fold reach, and those that are judged by extended positives."""
    inside = scores.selected(fold["i2t"], fold["t2i"])
    codes = group_codes(*(groups[way][fold[way]] for way in DIRECTIONS))
    views = [inside.for_queries(QUERIES[way]) for way in DIRECTIONS]
    if criterion.transductive:
        views = criterion.views(inside, DIRECTIONS)
    ways = list(zip(views, DIRECTIONS, strict=True))
    wanted = [of_groups(view, *codes, way) for view, way in ways]
    both = [codes]
    if judged:
        wanted += [of_positives(view, judged.pairs.positives(way), way) for view, way in ways]
        both.append((judged.groups["i2t"], judged.groups["t2i"]))
    measured = iter(measured_of(wanted, metrics))
    return [MeasuredFold({"i2t": next(measured), "t2i": next(measured)}, *pair) for pair in both]
