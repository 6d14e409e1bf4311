"""Mean average precision over unique phrases, each of them a class of its own.

The proposals of all test images that have a phrase are ranked together after NMS in each image. As
in PASCAL VOC since 2010, a box is right if it overlaps enough with a ground-truth box that no
better one has claimed, and precision is made descending. Equal scores count against the model.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pipeline.phrases.boxes import overlaps, survivors
from pipeline.phrases.found import CORRECT, Searched


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
        share = np.divide(weights @ self.right.T, counted, out=np.zeros(counted.shape),
                          where=counted > 0)  # fmt: skip
        descending = np.maximum.accumulate(share[:, ::-1], axis=1)[:, ::-1]
        total = (weights[:, self.own] * descending).sum(1)
        return np.asarray(total / (weights @ self.truths))


def ranked_phrases(searched: Searched, scores: np.ndarray, nms: float) -> dict[str, Ranked]:
    """Every unique phrase with its ranking.

    Args:
        searched: Q phrases with the R proposals of their images.
        scores: (Q, R) of the proposals; equal for the same phrase in the same image.
        nms: overlap above which the better box of an image leaves the other out.
    """
    parts: dict[str, list[tuple[int, int, np.ndarray, np.ndarray]]] = {}
    texts = searched.phrases["text"].to_numpy()
    order = np.argsort(searched.images, kind="stable")
    edges = np.flatnonzero(np.diff(searched.images[order], prepend=-1))
    for rows in np.split(order, edges[1:]):
        image = int(searched.images[rows[0]])
        for text, truths, values, right in _in_image(searched, scores, rows, texts[rows], nms):
            parts.setdefault(text, []).append((image, truths, values, right))
    return {text: _ranked(entries) for text, entries in parts.items()}


def mean_precision(ranked: Sequence[Ranked]) -> float:
    """Mean over unique phrases of their average precision, in percent."""
    precisions = [phrase.precision(np.ones((1, len(phrase.images))))[0] for phrase in ranked]
    return 100.0 * float(np.mean(precisions))


def resampled_precision(ranked: Sequence[Ranked], weights: np.ndarray) -> np.ndarray:
    """The same of resampled images, over the phrases that a sample has: (W,) percent.

    Args:
        ranked: unique phrases.
        weights: (W, N) how often each image is drawn.
    """
    total, counts = np.zeros(len(weights)), np.zeros(len(weights))
    for phrase in ranked:
        draws = weights[:, phrase.images]
        drawn = draws.any(1)
        total[drawn] += phrase.precision(draws[drawn])
        counts += drawn
    return 100.0 * total / counts


def _in_image(
    searched: Searched, scores: np.ndarray, rows: np.ndarray, texts: np.ndarray, nms: float
) -> list[tuple[str, int, np.ndarray, np.ndarray]]:
    """Of each unique phrase of an image: text, number of true boxes, scores and rightness."""
    image = searched.images[rows[0]]
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
        phrases.append((str(texts[index]), len(columns), values[number, kept], right))
    return phrases


def _claimed(near: np.ndarray) -> np.ndarray:
    """True positives (B,) by IoU (B, T), best box first: the first box of each ground truth."""
    nearest = near.argmax(1)
    enough = np.flatnonzero(near.max(1, initial=0) >= CORRECT)
    right = np.zeros(len(near), bool)
    right[enough[np.unique(nearest[enough], return_index=True)[1]]] = True
    return right


def _ranked(parts: Sequence[tuple[int, int, np.ndarray, np.ndarray]]) -> Ranked:
    images, truths = (np.array([part[n] for part in parts]) for n in (0, 1))
    owner = np.repeat(np.arange(len(parts)), [len(part[2]) for part in parts])
    scores, right = (np.concatenate([part[n] for part in parts]) for n in (2, 3))
    order = np.lexsort((right, -scores))
    owner, right = owner[order], right[order]
    places = np.flatnonzero(right)
    segment = np.searchsorted(places, np.arange(len(owner)))  # which right box closes the stretch
    shape = len(places) + 1, len(parts)
    cells = segment * len(parts) + owner
    boxes, rights = (
        np.cumsum(np.bincount(cells, counted, shape[0] * shape[1]).reshape(shape)[:-1], axis=0)
        for counted in (np.ones(len(owner)), right.astype(np.float64))
    )
    return Ranked(images, truths.astype(np.float64), owner[places], boxes, rights)
