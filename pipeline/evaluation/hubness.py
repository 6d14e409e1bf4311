"""How unevenly the items of a gallery are retrieved: hubs before and after an inference criterion.

In the true matching no caption is the nearest of more than one image, so hubs show errors without
any labels (kNN-margin paper, section 3.5 and table 5).
"""

from dataclasses import dataclass

import numpy as np

CLASSES = ("0", "1", "2 to 4", "5 to 9", "10 or more")  # every item is in one


@dataclass(frozen=True, eq=False)
class Hubness:
    """Statistics of `counts` (items,) int64: of how many queries each item is the nearest."""

    counts: np.ndarray

    @property
    def table(self) -> dict[str, int]:
        """Items whose count is 0, 1, >= 2, >= 5 and >= 10 (kNN-margin paper, table 5)."""
        few = {str(n): int((self.counts == n).sum()) for n in (0, 1)}
        return few | {f">={n}": int((self.counts >= n).sum()) for n in (2, 5, 10)}

    @property
    def shares(self) -> list[float]:
        """Percent of the items whose count is in each of CLASSES."""
        none, one, two, five, ten = self.table.values()
        return [100 * n / len(self.counts) for n in (none, one, two - five, five - ten, ten)]

    @property
    def figures(self) -> dict[str, float]:
        """Percent of the items that are the nearest of no query, and of ten or more."""
        return {"none": self.shares[0], "ten": self.shares[-1]}

    @property
    def skewness(self) -> float:
        """Third standardised moment, 0 when all items have the same (Radovanovic et al. 2010)."""
        deviations = self.counts - self.counts.mean()
        variance = float((deviations**2).mean())
        if self.counts.min() == self.counts.max():  # rounding must not make a skewness up
            return 0.0
        return float((deviations**3).mean()) / variance**1.5

    @property
    def largest(self) -> int:
        return int(self.counts.max())


def pairs_table(counts: np.ndarray, pairs: int) -> dict[str, int]:
    """The counts of the kNN-margin paper's table 5 from those (N,) of images. It lists an image
    once per caption; a query finds the first of its copies, the others are the nearest of none."""
    return Hubness(counts).table | {"0": pairs - int(np.count_nonzero(counts))}
