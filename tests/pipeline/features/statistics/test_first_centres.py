"""Where K-means starts: k-means++ against the law of drawing one centre after the other."""

import itertools

import pytest
import torch

from pipeline.features.statistics.first_centres import FEWEST, spread_rows


def test_kmeans_plus_plus_in_batches_has_the_law_of_one_by_one():
    """The chance of every ordered choice of three of five points, worked out and counted."""
    points = torch.tensor([[0.0], [1], [2.5], [6], [6.5]])
    squared = (points - points.T).square().double()
    expected = {}
    for rows in itertools.permutations(range(5), 3):
        chance = 1 / 5
        for taken in (1, 2):
            nearest = squared[list(rows[:taken])].amin(0)
            chance *= float(nearest[rows[taken]] / nearest.sum())
        expected[rows] = chance
    assert FEWEST > 1  # candidates a batch
    generator, runs = torch.Generator().manual_seed(0), 4000
    counts = dict.fromkeys(expected, 0)
    for _ in range(runs):
        counts[tuple(spread_rows(points, 3, generator).tolist())] += 1
    chi = sum((counts[r] - runs * p) ** 2 / (runs * p) for r, p in expected.items())
    assert sum(expected.values()) == pytest.approx(1)
    assert chi < 95  # 59 degrees of freedom: beyond it once in 500
