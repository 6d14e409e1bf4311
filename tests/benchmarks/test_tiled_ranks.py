"""Ranks straight from embeddings: those of the products, in any tiles, and what is refused."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from ranking_cases import both_with, equal, five_each, no_better, ranks_by_sorting, worlds

from benchmarks.tiled_ranks import ranks_from_embeddings
from pipeline.evaluation.metrics import COLUMNS, chance_level, summarise
from pipeline.runtime.errors import WorkbenchError
from pipeline.scores.ranks import retrieval_ranks


@settings(max_examples=60)
@given(worlds(), st.data(), st.integers(1, 60))
def test_embeddings_give_the_ranks_of_their_products(world, data, block):
    _, images, captions = world
    # Small integers: products are exact whatever the kernel, so ties are ties in both forms.
    small = st.integers(-2, 2).map(float)
    pictures = data.draw(hnp.arrays(np.float32, (len(images), 3), elements=small))
    texts = data.draw(hnp.arrays(np.float32, (len(captions), 3), elements=small))
    ranks = ranks_from_embeddings(pictures, texts, images, captions, block)
    equal(ranks, *ranks_by_sorting(pictures @ texts.T, images, captions))


@pytest.mark.parametrize("shuffled", [True, False])
def test_embeddings_give_the_ranks_of_their_products_in_many_tiles(shuffled):
    random = np.random.default_rng(2)
    images = np.concatenate([np.arange(190), random.integers(190, size=40)])
    captions = np.repeat(np.arange(190), random.integers(1, 7, 190))
    images = random.permutation(images) if shuffled else np.sort(images)
    pictures, texts = (
        random.integers(-2, 3, (len(groups), 4)).astype(np.float32) for groups in (images, captions)
    )
    ranks = ranks_from_embeddings(pictures, texts, images, captions, block=80 * 200)
    expected = retrieval_ranks(pictures @ texts.T, images, captions)
    equal(ranks, expected.i2t, expected.t2i)


@pytest.mark.parametrize("width", [1, 7, 64])
@pytest.mark.parametrize("collapsed", ["both", "images", "captions"])
def test_collapsed_embeddings_never_beat_chance(width, collapsed):
    random = np.random.default_rng(width)
    images, captions = five_each(211)
    pictures = random.standard_normal((len(images), width)).astype(np.float32)
    texts = random.standard_normal((len(captions), width)).astype(np.float32)
    if collapsed in ("both", "images"):
        pictures[:] = pictures[0]
    if collapsed in ("both", "captions"):
        texts[:] = texts[0]
    # One side collapsed leaves one ranking for all queries, which scatters around chance.
    slack = 1e-9 if collapsed == "both" else 0.25
    for block in (1 << 22, 5000):
        ranks = ranks_from_embeddings(pictures, texts, images, captions, block)
        of_best = [column for column in COLUMNS if column.keys[-1] != "mapr"]
        summary = summarise(both_with(ranks.i2t, ranks.t2i))
        no_better(summary, chance_level(images, captions), slack, of_best)


def test_embeddings_that_are_no_numbers_are_an_error():
    pictures, texts = np.ones((3, 4), np.float32), np.ones((15, 4), np.float32)
    texts[8, 1] = np.nan
    with pytest.raises(WorkbenchError, match="image 0 and caption 8"):
        ranks_from_embeddings(pictures, texts, *five_each(3))
    texts[8] = pictures[1] = 1e30
    with pytest.raises(WorkbenchError, match="inf of image 1 and caption 8"):
        ranks_from_embeddings(pictures, texts, *five_each(3))


@pytest.mark.parametrize(
    ("pictures", "texts", "message"),
    [
        (np.zeros((3, 2)), np.zeros((15, 3)), "width 2 and caption embeddings of width 3"),
        (np.zeros((4, 2)), np.zeros((15, 2)), r"expected \(3, K\)"),
        (np.zeros((3, 2)), np.zeros((15, 2), int), "caption embeddings"),
    ],
)
def test_malformed_embeddings_are_refused(pictures, texts, message):
    with pytest.raises(WorkbenchError, match=message):
        ranks_from_embeddings(pictures, texts, *five_each(3))
