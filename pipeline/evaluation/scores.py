"""Scores of images and captions, tile by tile: never N x M numbers at once unless they are there.

`Scores` is what everything is ranked by: N images by M captions, larger is better, cut into a grid
of tiles. There are four kinds: a `Matrix`; the `Products` of embeddings, made when a tile is asked
for; scores that a criterion has `Rescored`; and `Reranked` ones, of two models.
"""

import math
import mmap
import os
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from pathlib import Path
from typing import TypeVar

import numpy as np

from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.files import make_folder
from pipeline.runtime.process import Progress

# Images and captions of a tile, at most: 4 MB of float32, so that they stay in the cache.
BLOCK = (1024, 1000)
GEMM_MULTIPLE = 8  # captions; products of a width that is no multiple took half as long again
CACHED_SCORES = 3 << 23  # products that are kept once made, 100 MB: those of true pairs come first
PROGRESS_FROM = 1 << 28  # scores from which on progress is shown: some seconds
VECTORS = 4096  # embeddings that are looked at at once
FLOATS = (np.float32, np.float64, np.float16)

T = TypeVar("T")
Change = Callable[[np.ndarray, slice, slice], np.ndarray]
Numbers = tuple[np.ndarray, np.ndarray]  # of images and of captions, ascending


def cuts(size: int, step: int) -> list[slice]:
    """Numbers in runs of one length.

    Args:
        size: they are 0 ... size - 1.
        step: the length of a run, from 1; the last one may be shorter.

    Returns:
        Slices that cover all numbers, in their order.
    """
    return [slice(start, min(start + step, size)) for start in range(0, size, step)]


def even_block(shape: tuple[int, int], limits: tuple[int, int]) -> tuple[int, int]:
    """How large tiles are, so that all of them have nearly one size.

    Args:
        shape: N images and M captions.
        limits: the most images and captions of a tile.

    Returns:
        Images and captions of a tile, at least 1 each; captions a multiple of GEMM_MULTIPLE where
        the limit allows it.
    """
    height, width = (
        -(-size // max(1, -(-size // most))) for size, most in zip(shape, limits, strict=True)
    )
    return max(1, height), max(1, min(limits[1], -(-width // GEMM_MULTIPLE) * GEMM_MULTIPLE))


class Scores(ABC):
    """Scores of N images and M captions, larger is better.

    Attributes:
        shape: N and M.
        block: images and captions of a tile. The last bits of sums over scores depend on it, and
            not on where the scores come from.
        dtype: the type of the scores, a float.
    """

    shape: tuple[int, int]
    block: tuple[int, int]
    dtype: np.dtype

    @abstractmethod
    def tile(self, rows: slice, columns: slice) -> np.ndarray:
        """The scores of one run of images and one run of captions.

        Args:
            rows: one of `rows()`.
            columns: one of `columns()`.

        Returns:
            (n, m) scores, which must not be changed.
        """

    def rows(self) -> list[slice]:
        """The images in the runs that tiles have."""
        return cuts(self.shape[0], self.block[0])

    def columns(self) -> list[slice]:
        """The captions in the runs that tiles have."""
        return cuts(self.shape[1], self.block[1])

    def map_runs(self, work: Callable[[slice], T]) -> Iterator[T]:
        """What `work` gives for every run of images, in their order. It may run in threads."""
        return map(work, self.rows())

    def selected(self, images: np.ndarray, captions: np.ndarray) -> "Scores":
        """The scores of some images and captions, in tiles of the same block.

        Args:
            images: (n,) their numbers, ascending.
            captions: (m,) their numbers, ascending.

        Returns:
            (n, m) scores.
        """
        return Matrix(self.matrix(), self.block).selected(images, captions)

    @property
    def source(self) -> "Scores":
        """The scores whose tiles these are made from: themselves, unless a criterion changed them.
        Who ranks several views of one source asks for each of its tiles once."""
        return self

    def from_source(self, tile: np.ndarray, rows: slice, columns: slice) -> np.ndarray:
        """The tile that is made from one of `source`.

        Args:
            tile: (n, m) of the source.
            rows: its images.
            columns: its captions.

        Returns:
            (n, m) of these scores.
        """
        return tile

    def for_queries(self, axis: int) -> "Scores":
        """What is ranked for the queries of an axis (0: images, 1: captions): these scores."""
        return self

    def bound(self) -> float:
        """A number that no score exceeds in absolute value; infinity where it is not known."""
        return math.inf

    def matrix(self) -> np.ndarray:
        """All scores: (N, M)."""
        result = np.empty(self.shape, self.dtype)
        for rows in self.rows():
            for columns in self.columns():
                result[rows, columns] = self.tile(rows, columns)
        return result

    def line(self, axis: int, number: int) -> np.ndarray:
        """The scores of one image or caption.

        Args:
            axis: 0 for an image, 1 for a caption.
            number: of the image or caption.

        Returns:
            (M,) of an image, (N,) of a caption.
        """
        run, place = divmod(number, self.block[axis])
        if axis == 0:
            rows = self.rows()[run]
            parts = [self.tile(rows, columns)[place] for columns in self.columns()]
        else:
            columns = self.columns()[run]
            parts = [self.tile(rows, columns)[:, place] for rows in self.rows()]
        return np.concatenate(parts)


class Matrix(Scores):
    """Scores that are there.

    Args:
        scores: (N, M) floats, at least one image and one caption.
        block: images and captions of a tile, None for tiles of nearly one size within BLOCK.
    """

    def __init__(self, scores: np.ndarray, block: tuple[int, int] | None = None) -> None:
        self.scores = scores
        self.shape = (scores.shape[0], scores.shape[1])
        self.dtype = scores.dtype
        self.block = block or even_block(self.shape, BLOCK)

    def tile(self, rows: slice, columns: slice) -> np.ndarray:
        return self.scores[rows, columns]

    def selected(self, images: np.ndarray, captions: np.ndarray) -> "Matrix":
        if self.shape == (len(images), len(captions)):
            return self
        return Matrix(self.scores[np.ix_(images, captions)], self.block)

    def matrix(self) -> np.ndarray:
        return self.scores


class Products(Scores):
    """Inner products of embeddings, made when a tile is asked for.

    Equal embeddings must tie, and a score must have the same bits in every pass, thread and fold
    and in a written matrix; but kernels add up in another order for another shape. So every product
    is of a whole block, filled up with zeros at the ends and in folds, in memory that torch has
    aligned, on the CPU: torch makes the products here as it made those of the score files.

    Args:
        images: (N, K) float32.
        captions: (M, K) float32.
        block: images and captions of a tile, None for tiles of nearly one size within BLOCK.
        numbers: of the images and captions that count, None for all.
        workers: threads that work on a run of images each.
        threads: of a product in each worker, where there are several; it decides the last bits.
    """

    dtype = np.dtype(np.float32)

    def __init__(
        self,
        images: np.ndarray,
        captions: np.ndarray,
        block: tuple[int, int] | None = None,
        numbers: Numbers | None = None,
        workers: int = 1,
        threads: int = 1,
    ) -> None:
        self.sides = (images, captions)
        self.block = block or even_block((len(images), len(captions)), BLOCK)
        self.numbers = numbers
        counted = self.sides if numbers is None else numbers
        self.shape = (len(counted[0]), len(counted[1]))
        self.workers = workers
        self.threads = threads
        self._cached: dict[tuple[int, int], np.ndarray] = {}
        self._room = CACHED_SCORES  # scores that may still be kept

    def tile(self, rows: slice, columns: slice) -> np.ndarray:
        place = (rows.start, columns.start)
        if place not in self._cached:
            tile = self._multiplied(rows, columns)
            if tile.size > self._room:
                return tile
            self._room -= tile.size
            self._cached[place] = tile
        return self._cached[place]

    def _multiplied(self, rows: slice, columns: slice) -> np.ndarray:
        import torch  # takes a second, which a matrix of scores does not need

        blocks = []
        for axis, run in enumerate((rows, columns)):
            side = self.sides[axis]
            block = torch.zeros(self.block[axis], side.shape[1])
            chosen = run if self.numbers is None else self.numbers[axis][run]
            block.numpy()[: run.stop - run.start] = side[chosen]
            release(side)
            blocks.append(block)
        product = torch.empty(self.block)
        torch.mm(blocks[0], blocks[1].T, out=product)
        return product.numpy()[: rows.stop - rows.start, : columns.stop - columns.start]

    def map_runs(self, work: Callable[[slice], T]) -> Iterator[T]:
        results = super().map_runs(work) if self.workers == 1 else self._map_in_threads(work)
        if self.shape[0] * self.shape[1] < PROGRESS_FROM:
            yield from results
            return
        with Progress("scores from embeddings", self.shape[0], "images") as progress:
            for rows, result in zip(self.rows(), results, strict=True):
                progress.update(rows.stop - rows.start)
                yield result

    def _map_in_threads(self, work: Callable[[slice], T]) -> Iterator[T]:
        import torch

        # every thread of Python has a number of its own
        begin = partial(torch.set_num_threads, self.threads)
        with ThreadPoolExecutor(self.workers, initializer=begin) as pool:
            rows = self.rows()
            # as many runs at a time as there are workers: results that wait take memory
            for runs in cuts(len(rows), self.workers):
                yield from pool.map(work, rows[runs])

    def selected(self, images: np.ndarray, captions: np.ndarray) -> "Products":
        if self.shape == (len(images), len(captions)):
            return self
        chosen = (images, captions)
        if self.numbers is not None:
            chosen = (self.numbers[0][images], self.numbers[1][captions])
        return Products(
            images=self.sides[0],
            captions=self.sides[1],
            block=self.block,
            numbers=chosen,
            workers=self.workers,
            threads=self.threads,
        )

    def spread_over(self, workers: int, threads: int) -> "Products":
        """Products that several threads make; any number of workers gives the same bits.

        Args:
            workers: threads that work on a run of images each.
            threads: of a product in each of them, and in this thread from now on.

        Returns:
            Products of the same embeddings.
        """
        import torch

        torch.set_num_threads(threads)
        return Products(
            images=self.sides[0],
            captions=self.sides[1],
            block=self.block,
            numbers=self.numbers,
            workers=workers,
            threads=threads,
        )

    def bound(self) -> float:
        """By Cauchy and Schwarz: the product of the largest lengths."""
        return self._longest(0) * self._longest(1)

    def _longest(self, axis: int) -> float:
        longest = 0.0
        for run in cuts(len(self.sides[axis]), VECTORS):
            vectors = self.sides[axis][run].astype(np.float64)
            longest = max(longest, float(np.einsum("nk,nk->n", vectors, vectors).max()))
            release(self.sides[axis])
        return math.sqrt(longest)


class Rescored(Scores):
    """Scores that a criterion has changed.

    Args:
        base: the scores of a model.
        change: makes a new tile of one of `base`, from the tile and its images and captions.
    """

    def __init__(self, base: Scores, change: Change) -> None:
        self.base = base
        self.change = change
        self.shape = base.shape
        self.block = base.block
        self.dtype = base.dtype

    @property
    def source(self) -> Scores:
        return self.base

    def from_source(self, tile: np.ndarray, rows: slice, columns: slice) -> np.ndarray:
        """The tile that `change` makes from one of `base`.

        Args:
            tile: (n, m) of `base`.
            rows: its images.
            columns: its captions.

        Returns:
            (n, m) of these scores.
        """
        return self.change(tile, rows, columns)

    def tile(self, rows: slice, columns: slice) -> np.ndarray:
        return self.from_source(self.base.tile(rows, columns), rows, columns)

    def map_runs(self, work: Callable[[slice], T]) -> Iterator[T]:
        return self.base.map_runs(work)


class Reranked(Matrix):
    """Scores of a second model, ranked by `for_queries`: of each query the `top` items of the
    largest first scores by the second, all others behind them by the first.

    Args:
        first: (N, M) scores of the model that chooses.
        second: (N, M) scores of the model that orders what was chosen.
        top: items of each query that are chosen, from 1.
        block: images and captions of a tile, None for tiles of nearly one size within BLOCK.
    """

    def __init__(
        self,
        first: np.ndarray,
        second: np.ndarray,
        top: int,
        block: tuple[int, int] | None = None,
    ) -> None:
        super().__init__(second, block)
        self.first = first
        self.top = top

    def selected(self, images: np.ndarray, captions: np.ndarray) -> "Reranked":
        if self.shape == (len(images), len(captions)):
            return self
        pairs = np.ix_(images, captions)
        return Reranked(self.first[pairs], self.scores[pairs], self.top, self.block)

    def cost(self, folds: int) -> dict[str, float]:
        """By direction, the percentage of all pairs of a fold that the second model must score."""
        images, captions = (size // folds for size in self.shape)
        items = {"i2t": captions, "t2i": images}
        return {way: round(100 * min(1.0, self.top / count), 2) for way, count in items.items()}

    def for_queries(self, axis: int) -> Scores:
        return self._orders[axis]

    @cached_property
    def _orders(self) -> tuple[Scores, Scores]:
        of_images = reranked(self.first, self.scores, self.top)
        of_captions = reranked(self.first.T, self.scores.T, self.top)
        return Matrix(of_images, self.block), Matrix(of_captions.T, self.block)


def reranked(first: np.ndarray, second: np.ndarray, top: int) -> np.ndarray:
    """Numbers that rank the items of each query; items tie where the scores that rank them do.

    Args:
        first: (Q, J) scores that choose; of equal ones the first in the row is chosen.
        second: (Q, J) scores that order what was chosen.
        top: how many items of each query are chosen.

    Returns:
        (Q, J) float32, exact up to 2^24 items: whole numbers from 0 for the chosen items, negative
        ones for all others.
    """
    numbers = np.empty(first.shape, np.float32)
    for row, of_first, of_second in zip(numbers, first, second, strict=True):
        chosen = np.argsort(-of_first, kind="stable")[:top]
        row[:] = np.unique(of_first, return_inverse=True)[1] - float(len(of_first))
        row[chosen] = np.unique(of_second[chosen], return_inverse=True)[1]
    return numbers


def as_scores(scores: np.ndarray | Scores) -> Scores:
    """A matrix (N, M) of floats as `Scores`; those as they are.

    Raises:
        WorkbenchError: no matrix, an empty one, or one of another type.
    """
    if isinstance(scores, Scores):
        return scores
    if scores.ndim != 2 or not scores.size or scores.dtype not in FLOATS:
        raise WorkbenchError(
            f"scores of shape {scores.shape} and type {scores.dtype}: expected a float matrix "
            "(images, captions), at least one of each"
        )
    return Matrix(scores)


def checked_scores(scores: np.ndarray | Scores, images: int, captions: int) -> Scores:
    """Scores of a known number of images and captions.

    Args:
        scores: (N, M) floats, larger is better.
        images: N as it should be.
        captions: M as it should be.

    Returns:
        The scores, as tiles.

    Raises:
        WorkbenchError: another shape, or no matrix of floats.
    """
    found = as_scores(scores)
    if found.shape != (images, captions):
        raise WorkbenchError(
            f"scores of shape {found.shape} for {images} images and {captions} captions: expected "
            "a float matrix (images, captions)"
        )
    return found


def check_finite(scores: np.ndarray, top: int, left: int) -> None:
    """Refuse NaN and infinity, naming one.

    Args:
        scores: (n, m) a part of all scores.
        top: number of its first image.
        left: number of its first caption.

    Raises:
        WorkbenchError: a score that is not finite.
    """
    # A sum is quicker than isfinite; it overflows only for scores near the type's limit.
    with np.errstate(over="ignore", invalid="ignore"):
        total = float(scores.sum(dtype=np.result_type(scores.dtype, np.float32)))
    if math.isfinite(total):
        return
    places = np.argwhere(~np.isfinite(scores))
    if len(places):
        row, column = places[0].tolist()
        raise WorkbenchError(
            f"score {float(scores[row, column])} of image {top + row} and caption {left + column}: "
            "every score must be a finite number",
            "the model or its features are broken; ranks of such scores would mean nothing",
        )


def release(array: np.ndarray) -> None:
    """Hand back the memory of an array of any shape that is mapped from a file."""
    if isinstance(array.base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        array.base.madvise(mmap.MADV_DONTNEED)


def temporary_matrix(folder: Path, shape: tuple[int, ...]) -> np.ndarray:
    """A matrix in a file without a name, which is gone with it: memory stays flat.

    Args:
        folder: of the file; made where it is missing.
        shape: rows and columns.

    Returns:
        A float32 array of zeros in the file.

    Raises:
        OSError: the disk has no room for it.
    """
    make_folder(folder)
    with tempfile.TemporaryFile(dir=folder) as file:
        # a disk that is full while pages are written would end the process without a word
        os.posix_fallocate(file.fileno(), 0, 4 * shape[0] * shape[1])
        return np.memmap(file, np.float32, "r+", shape=shape)
