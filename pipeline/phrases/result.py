"""The evaluation of one model of phrases: figures, their intervals, and a file of what it found."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.evaluation.bootstrap import limits
from pipeline.phrases.boxes import overlaps
from pipeline.phrases.found import RANKS, Searched, first_ranks, recalls, types_of, upper_bound
from pipeline.phrases.precision import mean_precision, ranked_phrases, resampled_precision
from pipeline.runtime.errors import WorkbenchError
from pipeline.storage.features import write_features

FIGURES = (*(f"r{k}" for k in RANKS), "map")


@dataclass(frozen=True, eq=False)
class PhraseResult:
    ranks: np.ndarray  # (Q,) place of the best right proposal of each phrase, 0 where none is right
    figures: dict[str, float]  # r1, r5, r10 and map in percent
    bound: float  # percent of phrases that any proposal is right for
    types: dict[str, dict[str, float]]  # figures but map of each type, its size and bound
    intervals: dict[str, tuple[float, float]]  # (low, high) of each figure, none without resamples
    unique: int  # unique phrases

    def summary(self) -> dict[str, Any]:
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
        nms: overlap above which, for average precision, the better box leaves the other out.
        resamples: of the images, for the intervals; 0 for none.
        confidence: share of the resamples that an interval holds.
        seed: of the resamples.

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
        weights = drawn(len(searched.counts), resamples, seed)
        parts = [*resampled_recalls(ranks, searched.images, weights),
                 resampled_precision(ranked, weights)]  # fmt: skip
        bounds = limits(centred(np.stack(parts), list(figures.values())), confidence)
        low, high = (map(float, bound) for bound in bounds)
        intervals = dict(zip(FIGURES, zip(low, high, strict=True), strict=True))
    return PhraseResult(ranks, figures, upper_bound(hits), types, intervals, len(ranked))


def drawn(images: int, resamples: int, seed: int) -> np.ndarray:
    """How often each image is drawn: (resamples, images) float64.

    Images are drawn, not phrases: those of one image are found, or not, together.

    Args:
        images: number of them.
        resamples: number of draws.
        seed: of the draws.
    """
    random = np.random.default_rng(seed)
    return random.multinomial(images, np.full(images, 1 / images), resamples).astype(np.float64)


def centred(resampled: np.ndarray, figures: Sequence[float]) -> np.ndarray:
    """Resampled figures (F, resamples) moved so that the mean of each is the figure itself. A
    sample repeats images and lacks others, so its mean average precision is some points larger."""
    return resampled + (np.array(figures) - resampled.mean(1))[:, None]


def resampled_recalls(ranks: np.ndarray, images: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """R@1, R@5 and R@10 of resampled images: (3, resamples) percent.

    Args:
        ranks: (Q,) 0 where nothing right is there.
        images: (Q,) number of each phrase's image.
        weights: (resamples, N) how often each image is drawn.
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
    """Write the place of the right box and the best box of every phrase.

    Args:
        path: of the file, .h5.
        searched: Q phrases with the R proposals of their images.
        scores: (Q, R).
        result: of the evaluation.
        attributes: of the file.
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
    write_features(path, searched.phrases["phrase_id"].tolist(), arrays, attributes)


def said(result: PhraseResult) -> str:
    """One line: figures, and the bound beside them."""
    names = [*(f"R@{k}" for k in RANKS), "mAP"]
    parts = [f"{name} {result.figures[key]:.1f}" for name, key in zip(names, FIGURES, strict=True)]
    return f"{', '.join(parts)} (upper bound {result.bound:.1f})"
