"""The evaluation of one model of phrases: figures, their intervals, and a file of what it found.

Beside Recall@K (pipeline.phrases.found) there is the mean average precision over unique phrases,
each of them a class of its own. The proposals of all test images that have a phrase are ranked
together after NMS in each image. As in PASCAL VOC since 2010, a box is right if it overlaps enough
with a ground-truth box that no better one has claimed, and precision is made descending. Equal
scores count against the model.

Intervals come from resampled images, whose phrases depend on each other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.evaluation.bootstrap import limits
from pipeline.features.feature_file import write_features
from pipeline.phrases.boxes import overlaps, survivors
from pipeline.phrases.found import (
    CORRECT,
    RANKS,
    Searched,
    first_ranks,
    recalls,
    types_of,
    upper_bound,
)
from pipeline.runtime.errors import WorkbenchError

FIGURES = (*(f"r{k}" for k in RANKS), "map")


@dataclass(frozen=True, eq=False)
class PhraseResult:
    """What was measured of one model."""

    ranks: np.ndarray  # (Q,) place of the best right proposal of each phrase, 0 where none is right
    figures: dict[str, float]  # r1, r5, r10 and map in percent
    bound: float  # percent of phrases that any proposal is right for
    types: dict[str, dict[str, float]]  # figures but map of each type, its size and bound
    intervals: dict[str, tuple[float, float]]  # (low, high) of each figure, none without resamples
    unique: int  # unique phrases

    def summary(self) -> dict[str, Any]:
        """The figures as the metrics file has them."""
        summary: dict[str, Any] = {"naive": {"phrases": self.figures}, "upper_bound": self.bound}
        summary |= {"phrases": len(self.ranks), "unique_phrases": self.unique, "types": self.types}
        if self.intervals:
            summary["intervals"] = {
                name: {"low": low, "high": high} for name, (low, high) in self.intervals.items()
            }
        return summary


def evaluate_phrases(
    searched: Searched,
    scores: np.ndarray,
    nms: float,
    resamples: int,
    confidence: float,
    seed: int,
) -> PhraseResult:
    """Measure what a model finds.

    Args:
        searched: Q phrases with the R proposals of their images.
        scores: (Q, R), -inf where an image has fewer proposals.
        nms: IoU above which, for average precision, the better box suppresses the other.
        resamples: of the images, for the intervals; 0 for none.
        confidence: share of the resamples that an interval holds.
        seed: of the resamples.

    Returns:
        Recalls and mean average precision in percent, of all phrases and by type, with their
        intervals and the best that the proposals allow.

    Raises:
        WorkbenchError: scores that are not finite.
    """
    mask = np.arange(scores.shape[1]) < searched.counts[searched.images, None]
    if not np.isfinite(scores[mask]).all():
        raise WorkbenchError("scores of proposals are not finite: the model is of no use")
    hits = searched.hits()
    ranks = first_ranks(scores, hits)
    ranked = list(ranked_phrases(searched, scores, nms).values())
    figures = recalls(ranks) | {"map": mean_precision(ranked)}
    types: dict[str, dict[str, float]] = {}
    for name, rows in types_of(searched.phrases).items():
        bound = {"upper_bound": upper_bound(hits[rows]), "phrases": len(rows)}
        types[name] = recalls(ranks[rows]) | bound
    intervals: dict[str, tuple[float, float]] = {}
    if resamples:
        weights = resample_images(len(searched.counts), resamples, seed)
        recall_samples = resampled_recalls(ranks, searched.images, weights)
        samples = np.vstack([recall_samples, resampled_precision(ranked, weights)])
        low, high = limits(centred(samples, list(figures.values())), confidence)
        for place, name in enumerate(FIGURES):
            intervals[name] = (float(low[place]), float(high[place]))
    return PhraseResult(
        ranks=ranks,
        figures=figures,
        bound=upper_bound(hits),
        types=types,
        intervals=intervals,
        unique=len(ranked),
    )


def resample_images(images: int, resamples: int, seed: int) -> np.ndarray:
    """How often each image is drawn in resamples. Images are drawn, not phrases: those of one image
    depend on each other.

    Args:
        images: number of images.
        resamples: number of draws of so many images.
        seed: of the draws.

    Returns:
        (resamples, images) float64.
    """
    random = np.random.default_rng(seed)
    return random.multinomial(images, np.full(images, 1 / images), resamples).astype(np.float64)


def centred(resampled: np.ndarray, figures: Sequence[float]) -> np.ndarray:
    """Resampled figures moved so that the mean of each is the figure itself: a sample repeats
    images and lacks others, so its mean average precision is some points larger.

    Args:
        resampled: (F, resamples).
        figures: F, of all images.

    Returns:
        (F, resamples).
    """
    return resampled + (np.array(figures) - resampled.mean(1))[:, None]


def resampled_recalls(ranks: np.ndarray, images: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """R@1, R@5 and R@10 of resampled images.

    Args:
        ranks: (Q,) of the best right proposal, 0 for none.
        images: (Q,) number of each phrase's image.
        weights: (resamples, N) how often each image is drawn.

    Returns:
        (3, resamples) percent.
    """
    count = weights.shape[1]
    asked = weights @ np.bincount(images, minlength=count)
    hits = [
        weights @ np.bincount(images[(ranks > 0) & (ranks <= k)], minlength=count) for k in RANKS
    ]
    return 100.0 * np.stack(hits) / asked


def write_result(
    path: Path,
    searched: Searched,
    scores: np.ndarray,
    result: PhraseResult,
    attributes: Mapping[str, str],
) -> None:
    """Write the rank of the right box and the best box of every phrase.

    Args:
        path: of the feature file.
        searched: Q phrases with the R proposals of their images.
        scores: (Q, R).
        result: of the evaluation.
        attributes: what the file says of itself.
    """
    best = scores.argmax(1)
    boxes = searched.boxes[searched.images, best]
    arrays = {
        "ranks": result.ranks.astype(np.int32),
        "boxes": boxes.astype(np.float32),
        "truth": searched.truth.astype(np.float32),
        "overlaps": overlaps(boxes[:, None], searched.truth[:, None])[:, 0, 0].astype(np.float32),
        "scores": scores.max(1).astype(np.float32),
    }
    write_features(
        path, searched.phrases["phrase_id"].tolist(), arrays=arrays, attributes=attributes
    )


def summary_line(result: PhraseResult) -> str:
    """One line: figures, and the bound beside them."""
    names = [*(f"R@{k}" for k in RANKS), "mAP"]
    parts = [f"{name} {result.figures[key]:.1f}" for name, key in zip(names, FIGURES, strict=True)]
    return f"{', '.join(parts)} (upper bound {result.bound:.1f})"


@dataclass(frozen=True)
class Ranked:
    """One unique phrase and the T right boxes of its ranking, best first."""

    images: np.ndarray  # (M,) numbers of the images that have it
    truths: np.ndarray  # (M,) true boxes in each of them
    own: np.ndarray  # (T,) place in `images` of each right box
    boxes: np.ndarray  # (T, M) boxes of each image down to and with that right box
    right: np.ndarray  # (T, M) right ones among them

    def precision(self, weights: np.ndarray) -> np.ndarray:
        """(W,) average precision; weights: (W, M), how often images count, not all 0 in a row."""
        counted = weights @ self.boxes.T
        share = np.zeros(counted.shape)
        np.divide(weights @ self.right.T, counted, out=share, where=counted > 0)
        descending = np.maximum.accumulate(share[:, ::-1], axis=1)[:, ::-1]
        total = (weights[:, self.own] * descending).sum(1)
        return np.asarray(total / (weights @ self.truths))


def ranked_phrases(searched: Searched, scores: np.ndarray, nms: float) -> dict[str, Ranked]:
    """Every unique phrase with its ranking, by its text.

    Args:
        searched: Q phrases with the R proposals of their images.
        scores: (Q, R) of the proposals, equal for the same phrase in the same image.
        nms: IoU above which the better box of an image suppresses the other.

    Returns:
        From the text to the ranking of the proposals of all images that have the phrase.
    """
    by_text: dict[str, list[_InImage]] = {}
    order = np.argsort(searched.images, kind="stable")
    edges = np.flatnonzero(np.diff(searched.images[order], prepend=-1))
    for rows in np.split(order, edges[1:]):
        for text, in_image in _phrases_of_image(searched, scores, rows=rows, nms=nms):
            by_text.setdefault(text, []).append(in_image)
    return {text: _ranked(in_images) for text, in_images in by_text.items()}


def mean_precision(ranked: Sequence[Ranked]) -> float:
    """Mean over unique phrases of their average precision, in percent."""
    precisions = [phrase.precision(np.ones((1, len(phrase.images))))[0] for phrase in ranked]
    return 100.0 * float(np.mean(precisions))


def resampled_precision(ranked: Sequence[Ranked], weights: np.ndarray) -> np.ndarray:
    """Mean average precision of resampled images, over the phrases that a sample has.

    Args:
        ranked: unique phrases.
        weights: (W, N) how often each image is drawn.

    Returns:
        (W,) percent.
    """
    total = np.zeros(len(weights))
    counts = np.zeros(len(weights))
    for phrase in ranked:
        draws = weights[:, phrase.images]
        has_phrase = draws.any(1)
        total[has_phrase] += phrase.precision(draws[has_phrase])
        counts += has_phrase
    return 100.0 * total / counts


@dataclass(frozen=True)
class _InImage:
    """A unique phrase in one of its images."""

    image: int
    truths: int  # true boxes
    scores: np.ndarray  # (B,) of the proposals that NMS leaves, descending
    right: np.ndarray  # (B,) bool


def _phrases_of_image(
    searched: Searched, scores: np.ndarray, rows: np.ndarray, nms: float
) -> list[tuple[str, _InImage]]:
    """Each unique phrase of an image with its text; rows: of all phrases of the image."""
    texts = searched.phrases["text"].to_numpy()[rows]
    image = int(searched.images[rows[0]])
    boxes = searched.boxes[image, : searched.counts[image]]
    _, places, codes = np.unique(texts, return_index=True, return_inverse=True)
    values = scores[rows[places], : len(boxes)]
    alive = survivors(overlaps(boxes, boxes) > nms, values)
    truths = searched.truth[rows]
    near = overlaps(boxes, truths)
    phrases = []
    for number, index in enumerate(places):
        _, firsts = np.unique(truths[codes == number], axis=0, return_index=True)
        columns = np.flatnonzero(codes == number)[np.sort(firsts)]
        kept = np.flatnonzero(alive[number])
        kept = kept[np.argsort(-values[number, kept], kind="stable")]
        right = _claimed(near[np.ix_(kept, columns)])
        in_image = _InImage(image, len(columns), scores=values[number, kept], right=right)
        phrases.append((str(texts[index]), in_image))
    return phrases


def _claimed(near: np.ndarray) -> np.ndarray:
    """True positives (B,) by IoU (B, T), best box first: the first box of each ground truth."""
    nearest = near.argmax(1)
    enough = np.flatnonzero(near.max(1, initial=0) >= CORRECT)
    right = np.zeros(len(near), bool)
    right[enough[np.unique(nearest[enough], return_index=True)[1]]] = True
    return right


def _ranked(in_images: Sequence[_InImage]) -> Ranked:
    """The proposals of all images of a phrase, ranked together."""
    count = len(in_images)
    owner = np.repeat(np.arange(count), [len(part.scores) for part in in_images])
    scores = np.concatenate([part.scores for part in in_images])
    right = np.concatenate([part.right for part in in_images])
    order = np.lexsort((right, -scores))  # of equal scores the wrong ones first
    owner = owner[order]
    right = right[order]
    places = np.flatnonzero(right)

    def down_to_each_right_box(weights: np.ndarray) -> np.ndarray:
        """(T, M) sums over each image's boxes; weights: of the boxes, best first."""
        stretch = np.searchsorted(places, np.arange(len(owner)))  # which right box closes it
        sums = np.zeros((len(places) + 1, count))
        np.add.at(sums, (stretch, owner), weights)
        return np.cumsum(sums[:-1], axis=0)

    return Ranked(
        images=np.array([part.image for part in in_images]),
        truths=np.array([part.truths for part in in_images], np.float64),
        own=owner[places],
        boxes=down_to_each_right_box(np.ones(len(owner))),
        right=down_to_each_right_box(right.astype(np.float64)),
    )
