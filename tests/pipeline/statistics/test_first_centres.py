"""Where K-means starts: k-means++ against the law of drawing one centre after the other."""

import itertools

import pytest
import torch

from pipeline.statistics.first_centres import (
    FEWEST,
    accept,
    spread_rows,
    squared_distances,
)


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


def test_a_candidate_on_a_taken_one_is_refused():
    points = torch.tensor([[0.0, 0], [3, 4], [3, 4]])
    nearest = torch.tensor([0.0, 25, 25])
    candidates = torch.tensor([1, 2, 1])
    between = squared_distances(points, points.square().sum(1), candidates)
    assert accept(nearest, between, candidates, torch.Generator().manual_seed(0)) == [0]


def test_distances_of_duplicates_are_zero():
    points = torch.randn(50, 64, generator=torch.Generator().manual_seed(0)).repeat(2, 1)
    squared = squared_distances(points, points.square().sum(1), torch.arange(50))
    exact = (points[:, None].double() - points[None, :50].double()).square().sum(2)
    torch.testing.assert_close(squared.double(), exact, rtol=1e-4, atol=1e-4)
    assert torch.equal(squared == 0, exact == 0)
