"""From the scores of a test split to metrics, ranks and confidence intervals, by protocol."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeline.evaluation.bootstrap import MeasuredFold, bootstrap_intervals
from pipeline.evaluation.criteria import Criterion
from pipeline.evaluation.measure import measure_direction
from pipeline.evaluation.metrics import Measured, average, chance_level, joined, summarise
from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.scores.file import SplitScores
from pipeline.scores.groups import group_codes
from pipeline.scores.ranking import DIRECTIONS, Direction

DECIMALS = 4


@dataclass(frozen=True)
class Fold:
    """Row numbers of the images and captions that are ranked against each other."""

    images: np.ndarray
    captions: np.ndarray


@dataclass(frozen=True)
class Evaluation:
    """What one model reaches on one split.

    Attributes:
        protocol: "full", "1k_x5" for 5 folds of 1,000 images, or "first_1k" for the first 1,000.
        metrics: criterion -> figures as `metrics.average` gives, with "transductive": True where a
            score depends on the other queries.
        intervals: the same with [low, high], empty without resamples.
        measured: criterion -> what all queries reach within their folds, by direction.
        chance: figures of random scores.
        test_images: of which the evaluated images are the first; None where they are all.
    """

    protocol: str
    metrics: dict[str, dict[str, Any]]
    intervals: dict[str, dict[str, Any]]
    measured: dict[str, dict[Direction, Measured]]
    chance: dict[str, Any]
    test_images: int | None = None

    def summary(self) -> dict[str, Any]:
        """The content of metrics/<model>.json."""
        of = {} if self.test_images is None else {"test_images": self.test_images}
        return {**self.metrics, "protocol": self.protocol} | of


def evaluate(
    split: SplitScores,
    folds: int,
    resamples: int,
    confidence: float,
    seed: int,
    criteria: Sequence[Criterion] = (Criterion("naive"),),
    test_images: int | None = None,
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

    Raises:
        WorkbenchError: when the folds do not divide the images or would cut a group.
    """
    images, captions = group_codes(split.image_groups, split.caption_groups)
    parts = cut_folds(images, captions, folds)
    metrics, intervals, measured = {}, {}, {}
    for criterion in criteria:
        name = criterion.name
        found = [_measured(split.scores, criterion, fold, images, captions) for fold in parts]
        label = {"transductive": True} if criterion.transductive else {}
        metrics[name] = label | rounded(average([summarise(fold.measured) for fold in found]))
        measured[name] = _joined(found, parts)
        if resamples:
            intervals[name] = rounded(bootstrap_intervals(found, resamples, confidence, seed))
    chance = average([chance_level(images[fold.images], captions[fold.captions]) for fold in parts])
    cut = test_images is not None and len(images) < test_images
    protocol = protocol_name(len(images), folds, cut)
    of = test_images if cut else None
    return Evaluation(protocol, metrics, intervals, measured, rounded(chance), of)


def cut_folds(images: np.ndarray, captions: np.ndarray, folds: int) -> list[Fold]:
    """Contiguous disjoint folds of the images in their order, with the captions of their groups.

    Args:
        images: (N,) group numbers.
        captions: (M,) group numbers.
        folds: how many.

    Raises:
        WorkbenchError: when `folds` does not divide N (folds of different sizes are no protocol)
            or a group would lie in two folds.
    """
    if len(images) % folds:
        allowed = [str(k) for k in range(1, min(len(images), 1000) + 1) if len(images) % k == 0]
        raise WorkbenchError(
            f"evaluation.folds = {folds}: does not divide the {len(images)} test images; "
            f"allowed are {listing(allowed, 20)}",
            "set evaluation.folds in params.yaml; 1 ranks all test images at once",
        )
    fold_of_image = np.arange(len(images)) // (len(images) // folds)
    fold_of_group = np.zeros(int(images.max()) + 1, np.int64)
    fold_of_group[images] = fold_of_image
    cut = np.unique(images[fold_of_group[images] != fold_of_image])
    if len(cut):
        raise WorkbenchError(
            f"evaluation.folds = {folds}: would divide {len(cut)} persons between folds",
            "set evaluation.folds to 1 in params.yaml",
        )
    fold_of_caption = fold_of_group[captions]
    return [
        Fold(np.flatnonzero(fold_of_image == k), np.flatnonzero(fold_of_caption == k))
        for k in range(folds)
    ]


def protocol_name(images: int, folds: int, cut: bool = False) -> str:
    """ "full" for one fold, else images per fold and folds: "1k_x5", "200_x5".

    Args:
        images: that are evaluated.
        folds: how many.
        cut: whether they are the first of more: "first_1k", "first_200".
    """
    if folds == 1 and not cut:
        return "full"
    number = images // folds
    size = f"{number // 1000}k" if number % 1000 == 0 else f"{number}"
    return f"first_{size}" if cut else f"{size}_x{folds}"


def rounded(figures: Any) -> Any:
    """Figures in nested dicts and lists with the decimals that are written to files."""
    if isinstance(figures, dict):
        return {name: rounded(value) for name, value in figures.items()}
    if isinstance(figures, list):
        return [rounded(value) for value in figures]
    return round(figures, DECIMALS)


def _measured(
    scores: np.ndarray, criterion: Criterion, fold: Fold, images: np.ndarray, captions: np.ndarray
) -> MeasuredFold:
    whole = scores.shape == (len(fold.images), len(fold.captions))
    inside = scores if whole else scores[np.ix_(fold.images, fold.captions)]
    codes = group_codes(images[fold.images], captions[fold.captions])
    measured = {
        way: measure_direction(
            criterion.rescored(inside, way) if criterion.transductive else inside, *codes, way
        )
        for way in DIRECTIONS
    }
    return MeasuredFold(measured, *codes)


def _joined(found: list[MeasuredFold], parts: list[Fold]) -> dict[Direction, Measured]:
    """What the queries of all folds reach, in the order of the split."""
    rows = {"i2t": [part.images for part in parts], "t2i": [part.captions for part in parts]}
    return {
        way: joined([fold.measured[way] for fold in found]).of(
            np.argsort(np.concatenate(rows[way]))
        )
        for way in DIRECTIONS
    }
