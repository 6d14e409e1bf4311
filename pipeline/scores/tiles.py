"""Scores tile by tile, never N x M numbers: of a matrix, or products of embeddings."""

import math
import mmap
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from typing import Any, TypeVar

import numpy as np
import torch

from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.process import Progress
from pipeline.scores.blocks import check_numbers, cuts, release

# Images and captions of a tile, at most: 4 MB of float32, so that they stay in the cache.
BLOCK = (1024, 1000)
EVEN = 8  # captions; products of a width that is no multiple of it took half as long again
KEPT = 3 << 23  # products that are kept once made, 100 MB: those of true pairs are made first
TOLD = 1 << 28  # scores from which on progress is shown: some seconds
FLOATS = (np.float32, np.float64, np.float16)

T = TypeVar("T")
Work = Callable[["Tiles", slice], T]
Numbers = tuple[np.ndarray, np.ndarray] | None  # of images and captions, None for all
Spread = Callable[[Work[Any], Numbers, list[slice]], Iterator[Any]]


def even_block(shape: tuple[int, int], limits: tuple[int, int] | None = None) -> tuple[int, int]:
    """Images and captions of a tile of scores (N, M): tiles of nearly one size, within `limits`."""
    images, captions = limits or BLOCK
    height, width = (
        -(-size // max(1, -(-size // most)))
        for size, most in zip(shape, (images, captions), strict=True)
    )
    return max(1, height), max(1, min(captions, -(-width // EVEN) * EVEN))


class Tiles(ABC):
    """Scores of N images and M captions (its shape), larger is better. block: images and captions
    of a tile, on which the last bits of sums depend, and not on where the scores come from."""

    shape: tuple[int, int]
    block: tuple[int, int]

    @abstractmethod
    def tile(self, rows: slice, columns: slice) -> torch.Tensor:
        """Scores (n, m) of consecutive images and captions, at most `block` of them. Not to be
        changed, and valid until the next call."""

    @abstractmethod
    def selected(self, images: np.ndarray, captions: np.ndarray) -> "Tiles":
        """The scores of some images and captions, by their ascending numbers (n,) and (m,)."""

    def for_queries(self, axis: int) -> "Tiles":
        """What is ranked for the queries of an axis (0: images, 1: captions): these scores."""
        return self

    def each(self, work: Work[T]) -> Iterator[T]:
        """What `work(tiles, rows)` gives for every run of `block[0]` images, in their order."""
        for rows in self.rows():
            yield work(self, rows)

    def rows(self) -> list[slice]:
        """The images in the runs that tiles have."""
        return cuts(self.shape[0], self.block[0])

    def columns(self) -> list[slice]:
        """The captions in the runs that tiles have."""
        return cuts(self.shape[1], self.block[1])

    def largest(self) -> float:
        """A number that no score exceeds in absolute value; infinity where it is not known."""
        return float("inf")

    def matrix(self) -> np.ndarray:
        """All scores: (N, M) float32."""
        result = np.empty(self.shape, np.float32)
        for rows in self.rows():
            for columns in self.columns():
                result[rows, columns] = self.tile(rows, columns).numpy()
        return result

    def line(self, axis: int, number: int) -> np.ndarray:
        """The scores of one image (axis 0), (M,), or caption (axis 1), (N,)."""
        sides = [np.arange(size) for size in self.shape]
        sides[axis] = np.array([number])
        return self.selected(*sides).matrix().ravel()


class Matrix(Tiles):
    """Tiles of a matrix (N, M) of floats, of at most `block` images and captions."""

    def __init__(self, scores: np.ndarray, block: tuple[int, int] | None = None) -> None:
        self.scores, self.shape = scores, (scores.shape[0], scores.shape[1])
        self.limits, self.block = block, even_block(self.shape, block)

    def tile(self, rows: slice, columns: slice) -> torch.Tensor:
        part = self.scores[rows, columns]
        is_shared = part.flags.writeable and min(part.strides) >= 0  # else torch needs a copy
        return torch.from_numpy(part if is_shared else part.copy())

    def selected(self, images: np.ndarray, captions: np.ndarray) -> "Matrix":
        if self.shape == (len(images), len(captions)):
            return self
        return Matrix(self.scores[np.ix_(images, captions)], self.limits)

    def matrix(self) -> np.ndarray:
        return self.scores


class Products(Tiles):
    """Inner products of embeddings, made when a tile is asked for.

    Equal embeddings must tie, and a score must have the same bits in every pass, process and fold,
    but kernels may add up in another order for another shape or place. So the whole split is cut
    into windows of the same size (the last is moved back to stay inside), computed in memory that
    torch has aligned, on the CPU. images: (N, K) float32; captions: (M, K) float32; block: the most
    of a tile.
    """

    def __init__(
        self, images: np.ndarray, captions: np.ndarray, block: tuple[int, int] | None = None
    ) -> None:
        self.images, self.captions, self.limits = images, captions, block
        self.shape = (*images.shape[:1], *captions.shape[:1])
        self.block = even_block(self.shape, block)
        self.numbers: Numbers = None
        self.spread: Spread | None = None
        self._windows = _Windows(images, captions, self.block)

    def tile(self, rows: slice, columns: slice) -> torch.Tensor:
        parts = [
            list(self._parts(axis, run)) for axis, run in enumerate((rows, columns))
        ]  # by axis: place in the tile, number of the window, places in the window
        if len(parts[0]) == len(parts[1]) == 1:
            (_, i, top), (_, j, left) = parts[0][0], parts[1][0]
            return self._windows.product(i, j)[top][:, left]
        result = torch.empty(rows.stop - rows.start, columns.stop - columns.start)
        for down, i, top in parts[0]:
            for right, j, left in parts[1]:
                result[down, right] = self._windows.product(i, j)[top][:, left]
        return result

    def _parts(self, axis: int, run: slice) -> Iterator[tuple[slice, int, Any]]:
        numbers = np.arange(run.start, run.stop)
        if self.numbers is not None:
            numbers = self.numbers[axis][run]
        window, start = np.unique(numbers // self._windows.block[axis], return_index=True)
        for i, first, last in zip(window, start, [*start[1:], len(numbers)], strict=True):
            inside = numbers[first:last] - self._windows.start(axis, int(i))
            low, high = int(inside[0]), int(inside[-1]) + 1
            index = slice(low, high) if high - low == len(inside) else torch.from_numpy(inside)
            yield slice(int(first), int(last)), int(i), index

    def selected(self, images: np.ndarray, captions: np.ndarray) -> "Products":
        if self.shape == (len(images), len(captions)):
            return self
        chosen = images, captions
        if self.numbers is not None:
            chosen = self.numbers[0][images], self.numbers[1][captions]
        return self.of(chosen)

    def of(self, numbers: tuple[np.ndarray, np.ndarray]) -> "Products":
        """Of the whole split, those with these numbers, (n,) and (m,)."""
        shape = len(numbers[0]), len(numbers[1])
        return self.changed(numbers=numbers, shape=shape, block=even_block(shape, self.limits))

    def changed(self, **changes: Any) -> "Products":
        """The same with other attributes."""
        changed = Products.__new__(Products)
        changed.__dict__ |= self.__dict__ | changes
        return changed

    def each(self, work: Work[T]) -> Iterator[T]:
        runs = self.rows()
        if len(runs) == 1 or self.spread is None:
            results: Iterator[T] = super().each(work)
        else:
            results = self.spread(work, self.numbers, runs)
        quick = self.spread is None and self.shape[0] * self.shape[1] < TOLD
        if quick or len(runs) == 1:
            yield from results
            return
        with Progress("scores from embeddings", self.shape[0], "images") as progress:
            for rows in runs:
                try:
                    result = next(results)
                except BrokenProcessPool:
                    raise WorkbenchError(
                        f"scores from embeddings: a process died at image {rows.start:,}",
                        "out of memory? lower runtime.processes in params.yaml",
                    ) from None
                progress.update(rows.stop - rows.start)
                yield result

    def largest(self) -> float:
        """By Cauchy and Schwarz: the product of the largest lengths."""
        return self._windows.longest(0) * self._windows.longest(1)

    def __getstate__(self) -> dict[str, Any]:
        embeddings = [_reference(array) for array in (self.images, self.captions)]
        return {"embeddings": embeddings, "block": self.limits}

    def __setstate__(self, state: dict[str, Any]) -> None:
        images, captions = map(_array, state["embeddings"])
        self.__init__(images, captions, state["block"])  # type: ignore[misc]


class _Windows:
    """Products of windows, kept while there is room; of the others the last one."""

    def __init__(self, images: np.ndarray, captions: np.ndarray, block: tuple[int, int]) -> None:
        self.sides, self.block = (images, captions), block
        self.at: list[int] = [-1, -1]  # windows that have been copied
        self.last = (-1, -1)  # those whose product is in the third buffer
        self.buffers: list[torch.Tensor] = []
        self.kept: dict[tuple[int, int], torch.Tensor] = {}
        self.room = KEPT  # scores that may still be kept

    def size(self, axis: int) -> int:
        return min(self.block[axis], len(self.sides[axis]))

    def start(self, axis: int, number: int) -> int:
        return min(number * self.block[axis], len(self.sides[axis]) - self.size(axis))

    def product(self, i: int, j: int) -> torch.Tensor:
        if not self.buffers:
            width, sizes = self.sides[0].shape[1], [self.size(axis) for axis in (0, 1)]
            self.buffers = [torch.empty(size, width) for size in sizes] + [torch.empty(sizes)]
        if (i, j) in self.kept:
            return self.kept[i, j]
        if self.last == (i, j):
            return self.buffers[2]
        for axis, number in enumerate((i, j)):
            if self.at[axis] != number:
                top = self.start(axis, number)
                part = self.sides[axis][top : top + self.size(axis)]
                np.copyto(self.buffers[axis].numpy(), part)
                release(self.sides[axis])
        self.at = [i, j]
        product = self.buffers[2]
        if self.room >= product.numel():
            product = self.kept[i, j] = torch.empty_like(product)
            self.room -= product.numel()
        else:
            self.last = i, j
        return torch.mm(self.buffers[0], self.buffers[1].T, out=product)

    def longest(self, axis: int) -> float:
        side = self.sides[axis]
        longest = 0.0
        for run in cuts(len(side), BLOCK[1]):
            part = side[run].astype(np.float64)
            longest = max(longest, float(np.einsum("nk,nk->n", part, part).max()))
            release(side)
        return math.sqrt(longest)


Change = Callable[[torch.Tensor, slice, slice], torch.Tensor]


class Rescored(Tiles):
    """Tiles of `base` that a criterion has changed: `change` makes a new one of a tile."""

    def __init__(self, base: Tiles, change: Change) -> None:
        self.base, self.change = base, change
        self.shape, self.block = base.shape, base.block

    def tile(self, rows: slice, columns: slice) -> torch.Tensor:
        return self.change(self.base.tile(rows, columns), rows, columns)

    def selected(self, images: np.ndarray, captions: np.ndarray) -> Tiles:
        return Matrix(self.matrix(), self.block).selected(images, captions)

    def each(self, work: Work[T]) -> Iterator[T]:
        return self.base.each(partial(_changed, self.change, work))


def _changed(change: Change, work: Work[T], tiles: Tiles, rows: slice) -> T:
    return work(Rescored(tiles, change), rows)


def as_tiles(scores: np.ndarray | Tiles, block: tuple[int, int] | None = None) -> Tiles:
    """A matrix (N, M) of floats as tiles of at most `block`, None for BLOCK; tiles as they are."""
    if isinstance(scores, Tiles):
        return scores
    if scores.ndim != 2 or not scores.size or scores.dtype not in FLOATS:
        raise WorkbenchError(
            f"scores of shape {scores.shape} and type {scores.dtype}: expected a float matrix "
            "(images, captions), at least one of each"
        )
    return Matrix(scores, block)


def check_finite(scores: torch.Tensor, top: int, left: int) -> None:
    """Refuse scores (n, m) that are NaN or infinite, as `check_numbers` does."""
    # A sum is ten times faster than isfinite; it overflows only for scores near the type's limit.
    if not math.isfinite(scores.sum()):
        check_numbers(scores.numpy(), top, left)


def _reference(array: np.ndarray) -> Any:
    """How a process finds an array: by its place in its file, which all then share, or itself."""
    if isinstance(array, np.memmap) and isinstance(array.base, mmap.mmap):
        return array.filename, array.dtype, array.offset, array.shape
    return array


def _array(reference: Any) -> np.ndarray:
    if isinstance(reference, tuple):
        name, dtype, offset, shape = reference
        return np.memmap(name, dtype, "r", offset, shape)
    return np.asarray(reference)
