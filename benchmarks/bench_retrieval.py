"""Ranks of both directions from embeddings, against the least that any exact form must do.

The bound: one product of all images and captions, and one comparison and sum per direction with
the thresholds given for free, in numpy, a block of images at a time.
"""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from benchmarks.common import Row, apart, clustered, extra_bytes, paired_ratio, size
from pipeline.evaluation.ranks import Ranks, retrieval_ranks
from pipeline.evaluation.scores import BLOCK, Products, cuts

WIDTH = size(1024, 8)
FEW, MANY = size((1000, 5000), (10, 30))
EACH = 5  # captions of an image


def rows() -> Iterator[Row]:
    for images, runs in ((FEW, 15), (MANY, 5)):
        sides = vectors(images)
        ours = partial(ranks, sides)
        pair = paired_ratio(ours, lower_bound(*sides), runs)
        work = f"ranks of {images:,} x {images * EACH:,} at {WIDTH:,}-d, both directions"
        yield Row(work, pair.of("matmul + counting"), "<= 1.3x", pair.ratio, ours)
    extra = apart(extra_bytes, ranks, vectors, 20, MANY)
    share = extra / (4 * MANY * MANY * EACH)
    work = f"memory beside the embeddings, {MANY:,} x {MANY * EACH:,}"
    figure = f"{extra / 1e6:.0f} MB, {share:.2f} of the score matrix"
    yield Row(work, figure, "< 0.25 of the score matrix", share)


def vectors(images: int) -> tuple[np.ndarray, np.ndarray]:
    """Of images (N, K) and captions (5 N, K)."""
    return clustered(images, EACH, WIDTH, 8)


def ranks(sides: tuple[np.ndarray, np.ndarray]) -> Ranks:
    groups = np.arange(len(sides[0]))
    return retrieval_ranks(Products(*sides), groups, np.repeat(groups, EACH))


def lower_bound(pictures: np.ndarray, texts: np.ndarray) -> Callable[[], object]:
    """Product and counting only, a block of images at a time.

    Args:
        pictures: (N, K) embeddings of images.
        texts: (M, K) embeddings of captions.
    """
    image_levels = np.full((len(pictures), 1), 0.1, np.float32)
    caption_levels = np.full(len(texts), 0.1, np.float32)

    def run() -> object:
        by_image = np.zeros(len(pictures), np.int64)
        by_caption = np.zeros(len(texts), np.int64)
        for rows in cuts(len(pictures), BLOCK[0]):
            scores = pictures[rows] @ texts.T
            by_image[rows] = (scores >= image_levels[rows]).sum(1)
            by_caption += (scores >= caption_levels).sum(0)
        return by_image, by_caption

    return run
