"""Mean and covariance of rows that are seen once and never held together.

Blocks of CHUNK rows are multiplied in float32, twice as fast as float64, and summed in float64,
shifted by the mean of the first, so that products hold the spread of the data and not the square of
their offset. Memory: one D x D float64 triangle, one chunk of rows and one panel of a product.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise

import numpy as np

from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.process import Progress

CHUNK = 4096  # rows that are summed in float32
PANEL = 1024  # columns of the covariance at a time: only panels on and right of the diagonal

Blocks = Iterable[tuple[np.ndarray, ...]]


class Covariance:
    """Sums over rows that are made of parts; the cut into blocks changes nothing.

    Args:
        names: of the parts, for messages.
        widths: columns of each part, D in all.
        rows: how many will come.
    """

    def __init__(self, names: Sequence[str], widths: Sequence[int], rows: int) -> None:
        self.names = names
        self.rows = rows
        self.count = 0  # rows that are summed
        edges = np.cumsum([0, *widths]).tolist()
        self.columns = [slice(left, right) for left, right in pairwise(edges)]  # of each part
        width = edges[-1]
        self.chunk = np.empty((min(CHUNK, rows), width), dtype=np.float32)
        self.filled = 0
        self.shift = np.zeros(width, dtype=np.float32)
        self.sums = np.zeros(width)
        self.products = np.zeros((width, width))

    def add(self, parts: Sequence[np.ndarray]) -> None:
        """Add B rows, one (B, width) array per part; WorkbenchError for NaN and infinity."""
        start = 0
        while start < len(parts[0]):
            stop = min(len(parts[0]), start + len(self.chunk) - self.filled)
            into = self.chunk[self.filled : self.filled + stop - start]
            for part, columns in zip(parts, self.columns, strict=True):
                into[:, columns] = part[start:stop]
            self.filled += stop - start
            start = stop
            if self.filled == len(self.chunk):
                self._sum_chunk()

    def finish(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean (D,) and covariance (D, D) over rows - 1, float64, in this object's memory: in
        Fortran order with the lower triangle filled, as LAPACK reads it."""
        if self.filled:
            self._sum_chunk()
        if self.count != self.rows:
            raise WorkbenchError(f"{self.count:,} rows came, but {self.rows:,} were announced")
        offset = self.sums / self.count - self.shift
        for columns, onwards in self._panels():
            panel = self.products[columns, onwards]
            panel -= self.count * np.outer(offset[columns], offset[onwards])
            panel /= max(self.count - 1, 1)
        if not np.isfinite(self.products.diagonal()).all():
            names = " and ".join(self.names)
            raise WorkbenchError(f"{names}: values too large for float32 products")
        return self.shift + offset, self.products.T

    def _sum_chunk(self) -> None:
        rows = self.chunk[: self.filled]
        sums = rows.sum(axis=0, dtype=np.float64)
        for name, columns in zip(self.names, self.columns, strict=True):
            # a column's sum is finite exactly when all its float32 values are
            is_broken = ~np.isfinite(sums[columns])
            if is_broken.any():
                raise WorkbenchError(
                    f"{name}: NaN or infinity in {is_broken.sum():,} of {len(is_broken):,} "
                    f"columns, in rows {self.count:,} to {self.count + self.filled - 1:,}",
                    "make the features again, or look for what broke them",
                )
        if self.count == 0:
            self.shift = (sums / len(rows)).astype(np.float32)
        self.sums += sums
        rows -= self.shift
        for columns, onwards in self._panels():
            self.products[columns, onwards] += rows[:, columns].T @ rows[:, onwards]
        self.count += self.filled
        self.filled = 0

    def _panels(self) -> Iterator[tuple[slice, slice]]:
        """Columns of each panel, and the columns from its first to the last of all."""
        for start in range(0, len(self.products), PANEL):
            yield slice(start, start + PANEL), slice(start, None)


def peek(blocks: Blocks) -> tuple[list[int], Blocks]:
    """Widths of the parts of the first block, and all the blocks; WorkbenchError for none."""
    iterator = iter(blocks)
    first = next(iterator, None)
    if first is None:
        raise WorkbenchError("there are no rows to fit on")
    return [part.shape[1] for part in first], chain([first], iterator)


def measure(
    title: str, names: Sequence[str], widths: Sequence[int], blocks: Blocks, rows: int
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of all blocks, with a progress display.

    Args:
        title: of the display.
        names: of the parts of a row, for messages.
        widths: columns of each part, D in all.
        blocks: one (B, width) array per part, in float32 or what converts to it.
        rows: of all blocks together.

    Returns:
        Mean (D,) and covariance (D, D) over rows - 1, float64, in Fortran order with the lower
        triangle filled, as LAPACK reads it.

    Raises:
        WorkbenchError: for values that are not finite or too large for float32 products, and for
            another number of rows.
    """
    covariance = Covariance(names, widths, rows)
    with Progress(title, rows, "rows") as progress:
        for parts in blocks:
            covariance.add(parts)
            progress.update(len(parts[0]))
    return covariance.finish()
