"""Two models one after the other, against sorting every query twice."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ranking_cases import TIED, a_split, worlds

from pipeline.evaluation.combination import read_reranked
from pipeline.evaluation.protocol import evaluate
from pipeline.evaluation.score_file import write_scores
from pipeline.evaluation.scores import Reranked
from pipeline.runtime.errors import WorkbenchError


def rank_by_sorting_twice(first, second, true, top):
    """The rank of the best true item of one query; at equal scores of an order it stands last."""
    order = sorted(range(len(first)), key=lambda item: -first[item])
    chosen = sorted(order[:top], key=lambda item: (-second[item], true[item]))
    behind = sorted(order[top:], key=lambda item: (-first[item], true[item]))
    return 1 + [true[item] for item in chosen + behind].index(True)


@settings(max_examples=200, deadline=None)
@given(worlds(), st.data(), st.integers(1, 14))
def test_ranks_are_those_of_sorting_twice(world, data, top):
    first, images, captions = world
    second = np.array(data.draw(st.lists(TIED, min_size=first.size, max_size=first.size)), "f4")
    second = second.reshape(first.shape)
    found = measured(Reranked(first, second, top), images, captions)
    true = np.equal.outer(images, captions)
    ways = {"i2t": (first, second, true), "t2i": (first.T, second.T, true.T)}
    for way, (one, two, own) in ways.items():
        expected = [rank_by_sorting_twice(*lines, top) for lines in zip(one, two, own, strict=True)]
        assert found[way].ranks.tolist() == expected


def measured(scores, images, captions):
    owners = [f"i{np.flatnonzero(images == group)[0]}" for group in captions]
    ids = [f"i{n}" for n in range(len(images))], [f"c{n}" for n in range(len(captions))]
    split = replace(
        a_split(),
        scores=scores,
        image_ids=ids[0],
        caption_ids=ids[1],
        caption_image_ids=owners,
        image_groups=images,
    )
    return evaluate(split, 1, 0, 0.95, 0).measured["naive"]


def test_every_fold_has_its_own_best():
    first, second = a_split(seed=1), a_split(seed=2)
    split = replace(second, scores=Reranked(first.scores, second.scores, 3))
    found = evaluate(split, 3, 0, 0.95, 0).measured["naive"]
    for start in (0, 4, 8):
        rows = np.arange(start, start + 4)
        columns = np.flatnonzero(np.isin(second.caption_image_ids, second.image_ids[start:][:4]))
        inside = Reranked(*(each.scores[np.ix_(rows, columns)] for each in (first, second)), 3)
        groups = np.array(second.image_groups)[rows], second.caption_groups[columns]
        alone = measured(inside, *(np.unique(each, return_inverse=True)[1] for each in groups))
        for way, queries in (("i2t", rows), ("t2i", columns)):
            assert found[way].ranks[queries].tolist() == alone[way].ranks.tolist()


@given(
    images=st.integers(1, 9),
    captions=st.integers(1, 9),
    top=st.integers(1, 12),
    folds=st.sampled_from([1, 2]),
)
def test_the_share_of_pairs_that_the_second_model_scores(images, captions, top, folds):
    """Counted pair by pair: of each query `top` items, or all where there are fewer."""
    scores = np.zeros((images * folds, captions * folds), "f4")
    found = Reranked(scores, scores, top).cost(folds)
    for way, items in (("i2t", captions), ("t2i", images)):
        scored = sum(place < top for place in range(items))
        assert found[way] == round(100 * scored / items, 2)


def test_scores_of_other_images_are_refused(tmp_path):
    files = [tmp_path / f"{name}.h5" for name in ("vse", "scan")]
    for path, prefix in zip(files, ("", "x"), strict=True):
        write_scores(path, {"test": a_split(prefix=prefix)}, {})
    with pytest.raises(WorkbenchError, match="number 1 is '0"):
        read_reranked(*files, 3)
