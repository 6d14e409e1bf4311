"""What a model finds: scores of an image's proposals for phrases, and how good they are.

Recall@K is the share of phrases of which one of the K best proposals has an overlap of 0.5 or more
with the true box (Plummer et al. 2015; Wang et al. 2016, section 3.3). What no proposal reaches
nobody can find: the share that any of them reaches is the upper bound.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from pipeline.features.feature_file import FeatureFile
from pipeline.phrases.boxes import overlaps
from pipeline.phrases.tables import PhraseTables

CORRECT = 0.5  # least overlap with the true box
RANKS = (1, 5, 10)
BLOCK = 4096  # phrases whose overlaps are computed at once


@dataclass(frozen=True)
class Searched:
    """Q phrases with the boxes of their images."""

    phrases: pd.DataFrame
    images: np.ndarray  # (Q,) number of each phrase's image among N
    boxes: np.ndarray  # (N, R, 4) proposals, x1, y1, x2, y2 in pixels, zeros beyond the counts
    counts: np.ndarray  # (N,) proposals of each image
    truth: np.ndarray  # (Q, 4) the box to be found

    def __len__(self) -> int:
        return len(self.images)

    def hits(self) -> np.ndarray:
        """(Q, R) bool: which proposals of a phrase's image are right."""
        right = np.zeros((len(self), self.boxes.shape[1]), bool)
        for start in range(0, len(self), BLOCK):
            rows = slice(start, start + BLOCK)
            of_image = self.boxes[self.images[rows]]
            right[rows] = overlaps(self.truth[rows, None], of_image)[:, 0] >= CORRECT
        return right


def search_of(tables: PhraseTables, split: str, proposals: FeatureFile) -> Searched:
    """The phrases of a split, and the boxes of their images.

    Args:
        tables: of phrases.
        split: its name.
        proposals: the file of boxes.

    Returns:
        Q phrases in the order of the table, the proposals of their N images (N, R, 4), and the box
        to be found of each.

    Raises:
        WorkbenchError: no phrases in the split, or phrases of images that the file does not have.
    """
    phrases = tables.of_split(split)
    images, names = pd.factorize(phrases["image_id"])
    rows = proposals.rows(names.tolist())
    boxes, counts = (proposals.read(rows, name) for name in ("boxes", "counts"))
    return Searched(
        phrases=phrases, images=images, boxes=boxes, counts=counts, truth=tables.unions(phrases)
    )


def first_ranks(scores: np.ndarray, hits: np.ndarray) -> np.ndarray:
    """The place of the best right proposal, ties counted against it: (Q,) int64, 0 for none.

    Args:
        scores: (Q, R), -inf where an image has no proposal.
        hits: (Q, R) bool.

    Returns:
        (Q,) int64, from 1; 0 where no proposal of the image is right.
    """
    best = np.where(hits, scores, -np.inf).max(1, initial=-np.inf, keepdims=True)
    before = (~hits & (scores >= best) & (scores > -np.inf)).sum(1)
    return np.where(hits.any(1), before + 1, 0)


def recalls(ranks: np.ndarray) -> dict[str, float]:
    """R@1, R@5 and R@10 in percent of ranks (Q,), 0 where nothing right is there."""
    return {f"r{k}": 100.0 * float(((ranks > 0) & (ranks <= k)).mean()) for k in RANKS}


def upper_bound(hits: np.ndarray) -> float:
    """Percent of phrases (Q, R) that any proposal is right for."""
    return 100.0 * float(hits.any(1).mean())


def types_of(phrases: pd.DataFrame) -> dict[str, np.ndarray]:
    """The rows of each type; a phrase of several types, as people/other, counts in each."""
    kinds = [kind.split("/") for kind in phrases["type"]]
    names = sorted({name for types in kinds for name in types})
    return {name: np.flatnonzero([name in types for types in kinds]) for name in names}
