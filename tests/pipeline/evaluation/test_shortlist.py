"""What a shortlist holds, against a list of the images of every caption."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ranking_cases import a_split

from pipeline.evaluation.protocol import first_images, shortlist_recall


@settings(max_examples=30)
@given(
    images=st.integers(2, 8),
    count=st.integers(1, 8),
    first=st.integers(1, 8),
    persons=st.booleans(),
    seed=st.integers(0, 99),
    block=st.sampled_from([3, 1024]),  # captions at once
)
def test_equals_lists_of_every_caption(images, count, first, persons, seed, block):
    """Different scores; persons: two images each, and a caption's list may hold any of a person."""
    split = a_split(2 * images, [1, 2, 3])
    generator = np.random.default_rng(seed)
    ranks = generator.permutation(split.scores.size).reshape(split.scores.shape)
    groups = [str(n // 2) for n in range(2 * images)] if persons else split.image_groups
    split = replace(split, scores=ranks.astype(np.float32), image_groups=groups)
    asked = first_images(split, 2 * min(first, images))
    held = {"i2t": set(), "t2i": set()}
    for column, caption in enumerate(split.caption_ids):
        chosen = sorted(range(2 * images), key=lambda row: -ranks[row, column])[:count]
        for row in chosen:
            if groups[row] == split.caption_groups[column]:
                held["i2t"].add(split.image_ids[row])
                held["t2i"].add(caption)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pipeline.evaluation.protocol.PARTITIONED", block)
        found = shortlist_recall(split, asked, min(count, 2 * images))
    for way, queries in (("i2t", asked.image_ids), ("t2i", asked.caption_ids)):
        assert found[way] == pytest.approx(100 * len(held[way] & set(queries)) / len(queries))
