"""Ranks of both directions from embeddings, against the least that any exact form must do.

The bound: one product of all images and captions, and one comparison and sum per direction with
the thresholds given for free, in the fastest form known here, the whole matrix held.
"""

from collections.abc import Callable

import numpy as np
import torch

from benchmarks.common import Row, apart, grown, paired_ratio
from pipeline.scores.ranks import Ranks, retrieval_ranks
from pipeline.scores.tiles import Products

WIDTH = 1024
CAPTIONS_PER_IMAGE = 5
LIMIT = 1.1


def rows() -> list[Row]:
    """One row of time per size and one of memory for the larger size."""
    return [*(_time(images, runs) for images, runs in ((1000, 15), (5000, 5))), _memory(5000)]


def embeddings(images: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Random unit vectors (N, K) and (M, K), captions near their image, and the groups of both."""
    random = np.random.default_rng(0)
    pictures = random.standard_normal((images, WIDTH), dtype=np.float32)
    texts = random.standard_normal((images * CAPTIONS_PER_IMAGE, WIDTH), dtype=np.float32)
    # In place: a temporary copy would hide what ranking needs from the peak of memory.
    texts *= 8
    texts.reshape(images, CAPTIONS_PER_IMAGE, WIDTH)[...] += pictures[:, None]
    for vectors in (pictures, texts):
        vectors /= np.sqrt(np.einsum("nk,nk->n", vectors, vectors))[:, None]
    groups = np.arange(images)
    return pictures, texts, groups, np.repeat(groups, CAPTIONS_PER_IMAGE)


def ranks_from_embeddings(
    pictures: np.ndarray, texts: np.ndarray, images: np.ndarray, captions: np.ndarray
) -> Ranks:
    """Ranks of the products of (N, K) and (M, K), with the groups of both."""
    return retrieval_ranks(Products(pictures, texts), images, captions)


def lower_bound(pictures: np.ndarray, texts: np.ndarray) -> Callable[[], object]:
    """Product and counting only, into memory that is already there."""
    images, captions = torch.from_numpy(pictures), torch.from_numpy(texts)
    scores = torch.empty(len(images), len(captions))
    flags = torch.empty_like(scores)
    best_i, best_t = torch.full((len(images), 1), 0.1), torch.full((len(captions),), 0.1)

    def run() -> object:
        torch.mm(images, captions.T, out=scores)
        by_image = torch.ge(scores, best_i, out=flags).sum(1)
        return by_image, torch.ge(scores, best_t, out=flags).sum(0)

    return run


def _time(images: int, runs: int) -> Row:
    given = embeddings(images)

    def ranks() -> Ranks:
        return ranks_from_embeddings(*given)

    pair = paired_ratio(ranks, lower_bound(*given[:2]), runs)
    size = f"{images:,} x {images * CAPTIONS_PER_IMAGE:,}"
    work = f"ranks of {size} at {WIDTH:,}-d, both directions"
    return pair.at_most(work, LIMIT, "matmul + counting", ranks)


def _memory(images: int) -> Row:
    found = apart(_grown, images)
    share = found / (4 * images * images * CAPTIONS_PER_IMAGE)
    return Row(
        f"memory beside the embeddings, {images:,} x {images * CAPTIONS_PER_IMAGE:,}",
        f"{found / 1e6:.0f} MB, {share:.2f} of the score matrix",
        "< 0.25 of the score matrix",
        share < 0.25,
    )


def _grown(images: int) -> int:
    ranks_from_embeddings(*embeddings(100))  # a warm-up
    large = embeddings(images)
    return grown(lambda: ranks_from_embeddings(*large))
