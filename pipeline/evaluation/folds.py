"""From the scores of a test split to metrics, ranks and confidence intervals, by protocol."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeline.evaluation.bootstrap import MeasuredFold, summarised
from pipeline.evaluation.criterion import Criterion
from pipeline.evaluation.extended import Extended, JudgedFold, extended_of, judged_fold
from pipeline.evaluation.figures import Measured, average, chance_level, rounded
from pipeline.evaluation.measure import measured_of
from pipeline.evaluation.protocol import Fold, cut_folds, protocol_name
from pipeline.scores.file import SplitScores
from pipeline.scores.groups import group_codes
from pipeline.scores.positives import Relevance
from pipeline.scores.ranking import DIRECTIONS, Direction
from pipeline.scores.ranks import checked_tiles, of_groups, of_positives
from pipeline.scores.tiles import Tiles


@dataclass(frozen=True)
class Evaluation:
    """What one model reaches on one split.

    Attributes:
        protocol: "full", "1k_x5" for 5 folds of 1,000 images, or "first_1k" for the first 1,000.
        metrics: criterion -> figures as `figures.average` gives, with "transductive": True where a
            score depends on the other queries.
        intervals: the same with [low, high], empty without resamples.
        measured: criterion -> what all queries reach within their folds, by direction.
        chance: figures of random scores.
        test_images: of which the evaluated images are the first; None where they are all.
        extended: the same over extended positives; None without.
    """

    protocol: str
    metrics: dict[str, dict[str, Any]]
    intervals: dict[str, dict[str, Any]]
    measured: dict[str, dict[Direction, Measured]]
    chance: dict[str, Any]
    test_images: int | None = None
    extended: Extended | None = None

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
) -> Evaluation:
    """Evaluate criteria by folds, figures averaged over them.

    Args:
        split: scores of the N images and M captions to evaluate.
        folds: how many; 1 ranks all images at once.
        resamples: bootstrap draws, 0 for no intervals.
        confidence: share of the draws inside an interval.
        seed: of the draws.
        criteria: each rescores a fold by itself.
        test_images: of which the split's are the first; None: they are all.
        relevance: extended positives of the split, measured beside its groups; None for none.
    """
    images, captions = group_codes(split.image_groups, split.caption_groups)
    parts = cut_folds(images, captions, folds)
    scores = checked_tiles(split.scores, len(images), len(captions))
    codes: dict[Direction, np.ndarray] = {"i2t": images, "t2i": captions}
    judged = [
        judged_fold(relevance, {"i2t": fold.images, "t2i": fold.captions}, codes)
        for fold in parts
        if relevance
    ]
    found = {
        criterion.name: [
            _measured(scores, criterion, fold, images, captions, *judged[number : number + 1])
            for number, fold in enumerate(parts)
        ]
        for criterion in criteria
    }
    own = {name: [both[0] for both in folds] for name, folds in found.items()}
    rows: dict[Direction, np.ndarray] = {
        "i2t": np.concatenate([fold.images for fold in parts]),
        "t2i": np.concatenate([fold.captions for fold in parts]),
    }
    draws = resamples, confidence, seed
    metrics, intervals, measured = summarised(own, rows, *draws)
    for criterion in criteria:
        if criterion.transductive:
            metrics[criterion.name] = {"transductive": True, **metrics[criterion.name]}
    chance = average([chance_level(images[fold.images], captions[fold.captions]) for fold in parts])
    cut = test_images if test_images and len(images) < test_images else None
    extended = None
    if judged:
        by_list = {name: [both[1] for both in folds] for name, folds in found.items()}
        extended = extended_of(judged, by_list, *draws)
    protocol = protocol_name(len(images), folds, cut is not None)
    return Evaluation(protocol, metrics, intervals, measured, rounded(chance), cut, extended)


def _measured(
    scores: Tiles,
    criterion: Criterion,
    fold: Fold,
    images: np.ndarray,
    captions: np.ndarray,
    judged: JudgedFold | None = None,
) -> list[MeasuredFold]:
    """What the queries of a fold reach, and those that are judged by extended positives."""
    inside = scores.selected(fold.images, fold.captions)
    codes = group_codes(images[fold.images], captions[fold.captions])
    views = criterion.views(inside, DIRECTIONS) if criterion.transductive else [inside, inside]
    ways = list(zip(views, DIRECTIONS, strict=True))
    wanted = [of_groups(view, *codes, way) for view, way in ways]
    groups = [codes]
    if judged:
        wanted += [of_positives(view, judged.pairs.positives(way), way) for view, way in ways]
        groups.append((judged.groups["i2t"], judged.groups["t2i"]))
    measured = iter(measured_of(wanted))
    return [MeasuredFold({"i2t": next(measured), "t2i": next(measured)}, *own) for own in groups]
