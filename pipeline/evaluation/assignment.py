"""Images and captions matched all at once: a soft assignment (Sinkhorn) and a hard one (Hungarian).

The kNN-margin paper names assignment as future work (section 4). How many captions an image really
has is part of the truth to be found: both take the same number, M / N of N images and M captions.
"""

import math

import numpy as np
from scipy.optimize import linear_sum_assignment

from pipeline.evaluation.criterion import CAPTIONS, IMAGES, log_sum_exp
from pipeline.evaluation.scores import Scores
from pipeline.runtime.errors import WorkbenchError

# Pairs after expansion; 1,000 x 5,000 with five captions each are 25 million and take seconds.
PAIR_LIMIT = 50_000_000


def potentials(scores: Scores, beta: float, iterations: int) -> tuple[np.ndarray, np.ndarray]:
    """What makes scores a transport plan exp(beta s(i, t) + u(i) + v(t)) (Sinkhorn; Cuturi 2013).

    Every image has the mass 1/N and every caption 1/M, exactly, as v is swept last.

    Args:
        scores: (N, M).
        beta: inverse temperature, above 0.
        iterations: sweeps, from 1.

    Returns:
        u (N,) and v (M,), float32.
    """
    images, captions = scores.shape
    u: np.ndarray = np.zeros(images, np.float32)
    v: np.ndarray = np.zeros(captions, np.float32)
    for _ in range(iterations):
        u = -log_sum_exp(scores, [CAPTIONS], beta, (None, v))[0] - math.log(images)
        v = -log_sum_exp(scores, [IMAGES], beta, (u, None))[0] - math.log(captions)
    return u, v


def assigned_scores(scores: np.ndarray, queries: int) -> np.ndarray:
    """Scores with a query's assigned items first, each part in order of scores. Equals of an
    assigned item are lifted with it: the choice among equals lifts none above others.

    Args:
        scores: (N, M).
        queries: the axis of the queries, IMAGES or CAPTIONS.

    Returns:
        A new matrix (N, M).
    """
    image, caption = assignment(scores)
    result = scores.copy()
    query, item = (image, caption) if queries == IMAGES else (caption, image)
    lines, lifted = (scores, result) if queries == IMAGES else (scores.T, result.T)
    order = np.argsort(query, kind="stable")
    starts = np.flatnonzero(np.diff(query[order], prepend=-1))
    top = float(scores.max())
    step = max(1.0, abs(top) * 1e-6)  # some ulps of float32: adding the scores would round them
    for assigned in np.split(order, starts[1:]):
        line = lines[query[assigned[0]]]
        levels = np.unique(line[item[assigned]])
        equal = np.flatnonzero(np.isin(line, levels))
        level = 1 + np.searchsorted(levels, line[equal])
        lifted[query[assigned[0]], equal] = top + step * level
    return result


def assignment(scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Image and caption numbers (P,) of the pairs of largest total score of (N, M). With M >= N
    every caption gets one image, every image at most ceil(M / N) captions; else the reverse."""
    images, captions = scores.shape
    copies = max(-(-captions // images), -(-images // captions))
    pairs = images * captions * copies
    if pairs > PAIR_LIMIT:
        raise WorkbenchError(
            f"inference.criteria: hungarian: {images:,} images x {captions:,} captions with "
            f"{copies} each are {pairs:,} pairs; allowed are {PAIR_LIMIT:,}",
            "raise evaluation.folds in params.yaml, or use sinkhorn, which has no such limit",
        )
    # Equal solutions are chosen by place, and corpora list images and captions in the same order:
    # unshuffled, a model whose scores are all equal would get its true pairs.
    random = np.random.default_rng(0)
    rows = random.permutation(images)
    columns = random.permutation(captions)
    shuffled = scores[np.ix_(rows, columns)]
    if images > captions:
        row, column = linear_sum_assignment(np.repeat(shuffled, copies, axis=1), maximize=True)
        return rows[row], columns[column // copies]
    column, row = linear_sum_assignment(np.repeat(shuffled, copies, axis=0).T, maximize=True)
    return rows[row // copies], columns[column]
