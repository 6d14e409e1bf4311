"""K-means against the slowest obvious form, against scikit-learn, and against what must hold."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import KMeans

from pipeline.features.statistics import kmeans as clustering
from pipeline.features.statistics.kmeans import count_distinct, farthest_rows, kmeans


def blobs(count=200, width=5, centres=8, seed=0, spread=0.3):
    random = np.random.default_rng(seed)
    middles = random.normal(size=(centres, width))
    return torch.from_numpy(
        middles[random.integers(centres, size=count)] + spread * random.normal(size=(count, width))
    ).float()


@pytest.mark.parametrize("offset", [0, 1000])
def test_equals_scikit_learn_from_the_same_centres(offset):
    points = blobs(600, 16, 30, seed=1) + offset
    first = points[:30].clone()
    theirs = KMeans(30, init=first.numpy(), n_init=1, max_iter=100, tol=0).fit(points.numpy())
    found = kmeans(points, 30, first, 100, 0)
    assert found.converged
    assert found.reseeded == [0] * len(found.reseeded)
    np.testing.assert_array_equal(found.labels, theirs.labels_)
    assert found.inertia[-1] == pytest.approx(theirs.inertia_, rel=1e-3 if offset else 1e-5)
    np.testing.assert_allclose(found.centres, theirs.cluster_centers_, atol=1e-3)


@given(
    seed=st.integers(0, 10_000),
    count=st.integers(1, 40),
    values=st.integers(1, 6),
    tolerance=st.sampled_from([0.0, 1.0]),
    data=st.data(),
)
@settings(max_examples=60)
def test_what_holds_of_every_clustering(seed, count, values, tolerance, data):
    """With few values, so that points coincide and lie equally near to several centres."""
    points = torch.randint(values, (count, 2), generator=torch.Generator().manual_seed(seed)) / 7
    k = data.draw(st.integers(1, count))
    found = kmeans(points, k, "kmeans++", 100, tolerance, seed)
    assert all(a >= b for a, b in itertools.pairwise(found.inertia))
    assert len(found.inertia) == len(found.reseeded) + 1
    assert found.sizes.tolist() == np.bincount(found.labels, minlength=k).tolist()
    distances = (points[:, None] - found.centres[None]).square().sum(2)
    assigned = distances.gather(1, found.labels[:, None])[:, 0]
    torch.testing.assert_close(assigned, distances.amin(1), rtol=1e-5, atol=1e-6)
    assert found.inertia[-1] == pytest.approx(float(assigned.sum()), rel=1e-4, abs=1e-5)
    assert found.empty == max(k - count_distinct(points), 0)


def test_the_same_bits_again():
    points = blobs()
    before = points.clone()
    one, two = (kmeans(points, 20, "kmeans++", 10, 0, seed=3) for _ in range(2))
    assert torch.equal(points, before)
    assert torch.equal(one.centres, two.centres)
    assert torch.equal(one.labels, two.labels)
    assert one.inertia == two.inertia
    other = kmeans(points, 20, "kmeans++", 10, 0, seed=4)
    assert not torch.equal(one.centres, other.centres)


def test_blocks_do_not_matter(monkeypatch):
    points = blobs(700)
    whole = kmeans(points, 9, points[:9], 10, 0)
    monkeypatch.setattr(clustering, "VALUES", 50)
    split = kmeans(points, 9, points[:9], 10, 0)
    assert torch.equal(whole.labels, split.labels)
    torch.testing.assert_close(whole.centres, split.centres)


def test_an_empty_cluster_moves_to_the_farthest_point():
    points = torch.tensor([[0.0, 0], [1, 0], [0, 1], [30, 0], [0, 20], [0, 20.5]])
    first = torch.tensor([[0.0, 0], [500, 500], [600, 600]])  # the last two get no point
    found = kmeans(points, 3, first, 10, 0)
    assert found.reseeded[0] == 2
    assert found.labels.tolist() == [0, 0, 0, 1, 2, 2]
    assert found.empty == 0


def test_it_does_not_stop_at_a_cluster_that_an_update_emptied():
    """The first update takes all points from the third centre; the tolerance would stop there."""
    points = torch.tensor([[21.0, 23], [13, 22], [3, 4], [13, 5], [5, 0], [2, 19], [0, 2], [27, 2]])
    first = torch.tensor([[21.0, 5], [3, 21], [19, 10], [2, 20]])
    found = kmeans(points, 4, first, 20, tolerance=1.0)
    assert found.reseeded == [0, 1]
    assert found.empty == 0


def test_farthest_points_count_for_the_next():
    points = torch.tensor([[0.0], [10], [10], [9.9], [-8]])
    squared = points[:, 0].square()
    assert farthest_rows(points, squared, 2).tolist() == [1, 4]  # not 1 and 2, which are one place
    assert farthest_rows(points, squared, 5).tolist() == [1, 4, 3]


def test_zeros_of_either_sign_are_equal():
    assert count_distinct(torch.tensor([[0.0, 1], [-0.0, 1], [0, 2]])) == 2


def test_half_precision_is_clustered_in_float32():
    points = blobs().half()
    found = kmeans(points, 8, "kmeans++", 10, 0)
    assert found.centres.dtype == torch.float32
    assert torch.equal(found.labels, kmeans(points.float(), 8, "kmeans++", 10, 0).labels)
