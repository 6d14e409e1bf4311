"""From the scores of a test split to metrics, ranks and confidence intervals, by protocol."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeline.evaluation.bootstrap import RankedFold, bootstrap_intervals
from pipeline.evaluation.criteria import Criterion
from pipeline.evaluation.metrics import Ranks, average, chance_level, retrieval_ranks, summarise
from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.scores.file import SplitScores
from pipeline.scores.groups import group_codes

DECIMALS = 4


@dataclass(frozen=True)
class Fold:
    """Row numbers of the images and captions that are ranked against each other."""

    images: np.ndarray
    captions: np.ndarray


@dataclass(frozen=True)
class Evaluation:
    """What one model reaches on one split.

    protocol: "full", or "1k_x5" for 5 folds of 1,000 images; metrics: criterion -> figures as
    `metrics.average` gives, with "transductive": True where a score depends on the other queries;
    intervals: the same with [low, high], empty without resamples;
    ranks: criterion -> ranks of all queries within their folds; chance: figures of random scores.
    """

    protocol: str
    metrics: dict[str, dict[str, Any]]
    intervals: dict[str, dict[str, Any]]
    ranks: dict[str, Ranks]
    chance: dict[str, Any]

    def summary(self) -> dict[str, Any]:
        """The content of metrics/<model>.json."""
        return {**self.metrics, "protocol": self.protocol}


def evaluate(
    split: SplitScores,
    folds: int,
    resamples: int,
    confidence: float,
    seed: int,
    criteria: Sequence[Criterion] = (Criterion("naive"),),
) -> Evaluation:
    """Evaluate criteria under the protocol of `folds` folds, figures averaged over them.

    resamples: bootstrap draws, 0 for no intervals; confidence: share of draws inside an interval;
    criteria: each rescores a fold by itself.
    Raises WorkbenchError when the folds do not divide the images or would cut a group.
    """
    images, captions = group_codes(split.image_groups, split.caption_groups)
    parts = cut_folds(images, captions, folds)
    metrics, intervals, ranks = {}, {}, {}
    for criterion in criteria:
        name = criterion.name
        ranked = [_ranked(split.scores, criterion, fold, images, captions) for fold in parts]
        label = {"transductive": True} if criterion.transductive else {}
        metrics[name] = label | rounded(average([summarise(fold.ranks) for fold in ranked]))
        ranks[name] = _joined(ranked, parts)
        if resamples:
            limits = bootstrap_intervals(ranked, resamples, confidence, seed)
            intervals[name] = rounded(limits)
    chance = average([chance_level(images[fold.images], captions[fold.captions]) for fold in parts])
    return Evaluation(protocol_name(len(images), folds), metrics, intervals, ranks, rounded(chance))


def cut_folds(images: np.ndarray, captions: np.ndarray, folds: int) -> list[Fold]:
    """Contiguous disjoint folds of the images in their order, with the captions of their groups.

    images: (N,), captions: (M,) group numbers. Raises WorkbenchError when `folds` does not divide
    N (folds of different sizes are no protocol) or a group would lie in two folds.
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


def protocol_name(images: int, folds: int) -> str:
    """ "full" for one fold, else images per fold and folds: "1k_x5", "200_x5"."""
    if folds == 1:
        return "full"
    size = images // folds
    return f"{size // 1000}k_x{folds}" if size % 1000 == 0 else f"{size}_x{folds}"


def rounded(figures: Any) -> Any:
    """Figures in nested dicts and lists with the decimals that are written to files."""
    if isinstance(figures, dict):
        return {name: rounded(value) for name, value in figures.items()}
    if isinstance(figures, list):
        return [rounded(value) for value in figures]
    return round(figures, DECIMALS)


def _ranked(
    scores: np.ndarray, criterion: Criterion, fold: Fold, images: np.ndarray, captions: np.ndarray
) -> RankedFold:
    whole = scores.shape == (len(fold.images), len(fold.captions))
    inside = scores if whole else scores[np.ix_(fold.images, fold.captions)]
    codes = group_codes(images[fold.images], captions[fold.captions])
    if not criterion.transductive:
        return RankedFold(retrieval_ranks(inside, *codes), *codes)
    i2t = retrieval_ranks(criterion.rescored(inside, "i2t"), *codes).i2t
    t2i = retrieval_ranks(criterion.rescored(inside, "t2i"), *codes).t2i
    return RankedFold(Ranks(i2t, t2i), *codes)


def _joined(ranked: list[RankedFold], parts: list[Fold]) -> Ranks:
    i2t = np.concatenate([fold.ranks.i2t for fold in ranked])
    t2i = np.concatenate([fold.ranks.t2i for fold in ranked])
    image_order = np.argsort(np.concatenate([fold.images for fold in parts]))
    caption_order = np.argsort(np.concatenate([fold.captions for fold in parts]))
    return Ranks(i2t[image_order], t2i[caption_order])
