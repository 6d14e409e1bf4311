"""Exact ranks straight from embeddings, for score matrices too large to hold."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from pipeline.runtime.errors import WorkbenchError
from pipeline.scores.groups import Groups, TruePairs, group_codes
from pipeline.scores.ranks import FLOATS, Ranks, check_finite

BLOCK = 1 << 22  # scores held at once: 16 MB of float32; larger blocks were not faster
ALIGNED = 64  # products of other sizes took up to 1.5 times as long


def ranks_from_embeddings(
    images: np.ndarray,
    captions: np.ndarray,
    image_groups: Groups,
    caption_groups: Groups,
    block: int = BLOCK,
) -> Ranks:
    """Ranks of the inner products of (N, K) images and (M, K) captions, never holding N x M.

    Groups as in `retrieval_ranks`. With images and captions sorted by group and cut between
    groups, every true pair lies in a diagonal tile: these tiles come first and give each query's
    best true score, then the other tiles are only counted, so that every product is computed once.
    Memory: two tiles of about `block` scores (more only when a single group is larger).
    Raises WorkbenchError as `retrieval_ranks` does.
    """
    image_codes, caption_codes = group_codes(image_groups, caption_groups)
    images = _embeddings(images, "image", len(image_codes))
    captions = _embeddings(captions, "caption", len(caption_codes))
    if images.shape[1] != captions.shape[1]:
        raise WorkbenchError(
            f"image embeddings of width {images.shape[1]} and caption embeddings of width "
            f"{captions.shape[1]}: expected the same width"
        )
    by_image, by_caption = _sorting(image_codes), _sorting(caption_codes)
    images, image_codes = _reordered(images, by_image), _reordered(image_codes, by_image)
    captions, caption_codes = (_reordered(x, by_caption) for x in (captions, caption_codes))
    tiles = _Tiles(images, captions, _cuts(image_codes, caption_codes, block))
    pairs = TruePairs(image_codes, caption_codes)
    count = RankCounter(len(images), len(captions), np.dtype(np.float32))
    for rows, columns, scores in tiles.diagonal():
        image, caption = pairs.of(rows)
        true = scores[image - rows.start, caption - columns.start]
        count.learn_best(image, caption, true)
        count.add(scores, rows, columns)
        count.drop_true(image, caption, true)
    for rows, columns, scores in tiles.others():
        count.add(scores, rows, columns)
    ranks = count.ranks()
    return Ranks(_restored(ranks.i2t, by_image), _restored(ranks.t2i, by_caption))


class RankCounter:
    """Counts tile by tile: the best true scores, and how many items that are not true reach them.

    Comparisons are written as float32 ones and summed: torch sums floats some twenty times faster
    than booleans, and sums of up to 2^24 ones are exact.

    Args:
        images: N.
        captions: M.
        dtype: of the scores.
    """

    def __init__(self, images: int, captions: int, dtype: np.dtype) -> None:
        self.best_i = np.full(images, -np.inf, dtype)
        self.best_t = np.full(captions, -np.inf, dtype)
        self.reach_i = np.zeros(images, np.int64)
        self.reach_t = np.zeros(captions, np.int64)
        self.buffer = torch.empty(0)

    def learn_best(self, image: np.ndarray, caption: np.ndarray, true: np.ndarray) -> None:
        """Take in the scores of true pairs.

        Args:
            image: (P,) numbers of the pairs' images.
            caption: (P,) numbers of the pairs' captions.
            true: (P,) their scores.
        """
        with np.errstate(invalid="ignore"):  # NaN is reported with its place when its tile is added
            np.maximum.at(self.best_i, image, true)
            np.maximum.at(self.best_t, caption, true)

    def add(self, scores: np.ndarray, rows: slice, columns: slice) -> None:
        """Count the items of a tile that reach the best true score, true ones included.

        Args:
            scores: (n, m) of the tile.
            rows: numbers of its images.
            columns: numbers of its captions.

        Raises:
            WorkbenchError: NaN or infinity, naming the first.
        """
        scores = np.ascontiguousarray(scores)
        check_finite(scores, rows.start, columns.start)
        tile = torch.from_numpy(scores)
        if self.buffer.numel() < tile.numel():
            self.buffer = torch.empty(tile.numel())
        flags = self.buffer[: tile.numel()].view(tile.shape)
        best_i, best_t = torch.from_numpy(self.best_i[rows]), torch.from_numpy(self.best_t[columns])
        reached = torch.ge(tile, best_i[:, None], out=flags).sum(1)
        self.reach_i[rows] += reached.numpy().astype(np.int64)
        reached = torch.ge(tile, best_t, out=flags).sum(0)
        self.reach_t[columns] += reached.numpy().astype(np.int64)

    def drop_true(self, image: np.ndarray, caption: np.ndarray, true: np.ndarray) -> None:
        """Take true pairs out of the counts.

        Args:
            image: (P,) as given to `learn_best`.
            caption: (P,) likewise.
            true: (P,) likewise.
        """
        np.subtract.at(self.reach_i, image, true >= self.best_i[image])
        np.subtract.at(self.reach_t, caption, true >= self.best_t[caption])

    def ranks(self) -> Ranks:
        """The ranks, once every tile was added and every true pair taken out."""
        return Ranks(i2t=1 + self.reach_i, t2i=1 + self.reach_t)


@dataclass(frozen=True)
class _Tiles:
    """Products of sorted embeddings, tile by tile.

    Every product is taken over a window of one fixed shape, moved to stay inside the matrix, and
    then cut to the tile: kernels may round differently for different shapes, and tiles with true
    items must not round otherwise than those without.
    """

    images: np.ndarray
    captions: np.ndarray
    cuts: list[tuple[slice, slice]]

    def diagonal(self) -> Iterator[tuple[slice, slice, np.ndarray]]:
        """The tiles that hold the true pairs: (image rows, caption rows, scores)."""
        return self._products(self.cuts)

    def others(self) -> Iterator[tuple[slice, slice, np.ndarray]]:
        """All other tiles."""
        numbers = range(len(self.cuts))
        return self._products(
            [(self.cuts[i][0], self.cuts[j][1]) for i in numbers for j in numbers if i != j]
        )

    def _products(
        self, tiles: list[tuple[slice, slice]]
    ) -> Iterator[tuple[slice, slice, np.ndarray]]:
        height = _window([rows for rows, _ in self.cuts], len(self.images))
        width = _window([columns for _, columns in self.cuts], len(self.captions))
        images, captions = torch.from_numpy(self.images), torch.from_numpy(self.captions)
        product = torch.empty(height, width)
        for rows, columns in tiles:
            top = min(rows.start, len(images) - height)
            left = min(columns.start, len(captions) - width)
            torch.mm(images[top : top + height], captions[left : left + width].T, out=product)
            inside = product[rows.start - top : rows.stop - top]
            yield rows, columns, inside[:, columns.start - left : columns.stop - left].numpy()


def _window(slices: list[slice], size: int) -> int:
    longest = max(part.stop - part.start for part in slices)
    return min(size, -(-longest // ALIGNED) * ALIGNED)


def _cuts(images: np.ndarray, captions: np.ndarray, block: int) -> list[tuple[slice, slice]]:
    """Cut sorted codes between groups into runs of about equal size, some `block` scores a tile."""
    groups = np.arange(1, int(images[-1]) + 2)
    image_ends = np.searchsorted(images, groups)
    caption_ends = np.searchsorted(captions, groups)
    position = (image_ends / len(images) + caption_ends / len(captions)) / 2
    runs = max(1, math.ceil(math.sqrt(len(images) * len(captions) / block)))
    last = np.unique(np.searchsorted(position, np.arange(1, runs + 1) / runs - 1e-9))
    tops, lefts = [0, *image_ends[last][:-1]], [0, *caption_ends[last][:-1]]
    return [
        (slice(int(top), int(image_ends[g])), slice(int(left), int(caption_ends[g])))
        for top, left, g in zip(tops, lefts, last, strict=True)
    ]


def _sorting(codes: np.ndarray) -> np.ndarray | None:
    """The stable order that sorts `codes`; None when they are sorted, so that nothing is copied."""
    return None if (np.diff(codes) >= 0).all() else np.argsort(codes, kind="stable")


def _reordered(array: np.ndarray, order: np.ndarray | None) -> np.ndarray:
    return array if order is None else array[order]


def _restored(array: np.ndarray, order: np.ndarray | None) -> np.ndarray:
    return array if order is None else array[np.argsort(order)]


def _embeddings(array: np.ndarray, what: str, items: int) -> np.ndarray:
    if array.ndim != 2 or len(array) != items or array.dtype not in FLOATS:
        raise WorkbenchError(
            f"{what} embeddings of shape {array.shape} and type {array.dtype}: expected "
            f"({items}, K) floats"
        )
    return np.require(array, np.float32, ["C", "W"])
