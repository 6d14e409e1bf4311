"""From the scores of a test split to metrics, ranks and confidence intervals, by protocol."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeline.evaluation.bootstrap import MeasuredFold, bootstrap_intervals
from pipeline.evaluation.criterion import Criterion
from pipeline.evaluation.extended import Extended, JudgedFold, extended_of, judged_fold
from pipeline.evaluation.figures import Measured, average, chance_level, joined, rounded, summarise
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

    @property
    def is_folded(self) -> bool:
        """Whether queries were ranked within folds."""
        return "_x" in self.protocol

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

    Raises:
        WorkbenchError: when the folds do not divide the images or would cut a group, or when a fold
            has no query with extended positives.
    """
    images, captions = group_codes(split.image_groups, split.caption_groups)
    parts = cut_folds(images, captions, folds)
    scores = checked_tiles(split.scores, len(images), len(captions))
    codes: dict[Direction, np.ndarray] = {"i2t": images, "t2i": captions}
    rows: list[dict[Direction, np.ndarray]] = [
        {"i2t": fold.images, "t2i": fold.captions} for fold in parts
    ]
    judged = [judged_fold(relevance, own, codes) if relevance else None for own in rows]
    metrics, intervals, measured = {}, {}, {}
    beside: dict[str, list[MeasuredFold]] = {}
    for criterion in criteria:
        name = criterion.name
        both = [
            _measured(scores, criterion, fold, images, captions, own)
            for fold, own in zip(parts, judged, strict=True)
        ]
        found = [fold for fold, _ in both]
        beside[name] = [fold for _, fold in both if fold is not None]
        label = {"transductive": True} if criterion.transductive else {}
        metrics[name] = label | rounded(average([summarise(fold.measured) for fold in found]))
        measured[name] = _joined(found, parts)
        if resamples:
            intervals[name] = rounded(bootstrap_intervals(found, resamples, confidence, seed))
    chance = average([chance_level(images[fold.images], captions[fold.captions]) for fold in parts])
    cut = test_images is not None and len(images) < test_images
    protocol = protocol_name(len(images), folds, cut)
    of = test_images if cut else None
    own_folds = [fold for fold in judged if fold is not None]
    extended = extended_of(own_folds, beside, resamples, confidence, seed) if own_folds else None
    return Evaluation(protocol, metrics, intervals, measured, rounded(chance), of, extended)


def _measured(
    scores: Tiles,
    criterion: Criterion,
    fold: Fold,
    images: np.ndarray,
    captions: np.ndarray,
    judged: JudgedFold | None,
) -> tuple[MeasuredFold, MeasuredFold | None]:
    """What the queries of a fold reach, and those that are judged by extended positives."""
    inside = scores.selected(fold.images, fold.captions)
    codes = group_codes(images[fold.images], captions[fold.captions])
    views = criterion.views(inside, DIRECTIONS) if criterion.transductive else [inside, inside]
    ways = list(zip(views, DIRECTIONS, strict=True))
    wanted = [of_groups(view, *codes, way) for view, way in ways]
    if judged is not None:
        wanted += [of_positives(view, judged.pairs.positives(way), way) for view, way in ways]
    measured = measured_of(wanted)
    found = MeasuredFold(dict(zip(DIRECTIONS, measured[:2], strict=True)), *codes)
    if judged is None:
        return found, None
    extended = dict(zip(DIRECTIONS, measured[2:], strict=True))
    return found, MeasuredFold(extended, judged.groups["i2t"], judged.groups["t2i"])


def _joined(found: list[MeasuredFold], parts: list[Fold]) -> dict[Direction, Measured]:
    """What the queries of all folds reach, in the order of the split."""
    rows = {"i2t": [part.images for part in parts], "t2i": [part.captions for part in parts]}
    return {
        way: joined([fold.measured[way] for fold in found]).of(
            np.argsort(np.concatenate(rows[way]))
        )
        for way in DIRECTIONS
    }
