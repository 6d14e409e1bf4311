"""Small score matrices with ties, slow rankings of them, and queries of given ranks."""

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from pipeline.evaluation.figures import concatenated, measured_of, summarise
from pipeline.evaluation.rank_file import COLUMNS
from pipeline.evaluation.ranks import checked_scores, request_of_groups, request_of_positives
from pipeline.evaluation.score_file import SplitScores
from pipeline.evaluation.scores import as_scores

TIED = st.sampled_from([-2.0, -1.0, -0.5, 0.0, 0.25, 3.0])


@st.composite
def worlds(draw, values=TIED):
    """Scores with many ties, and groups of several images and captions in any order."""
    present = draw(st.integers(1, 5))
    extra = st.lists(st.integers(0, present - 1), max_size=6)
    image_groups = draw(st.permutations([*range(present), *draw(extra)]))
    caption_groups = draw(st.permutations([*range(present), *draw(extra)]))
    shape = (len(image_groups), len(caption_groups))
    scores = draw(hnp.arrays(np.float32, shape, elements=values))
    return scores, np.array(image_groups), np.array(caption_groups)


def relevance_by_sorting(scores, image_groups, caption_groups):
    """Slowest form: every query's items from first to last, True for true ones, by direction.

    A true item stands after all others of its score.
    """

    def sorted_truth(row, true):
        order = sorted(range(len(row)), key=lambda item: (-row[item], true[item]))
        return [bool(true[item]) for item in order]

    true = np.equal.outer(np.asarray(image_groups), np.asarray(caption_groups))
    return {
        "i2t": [sorted_truth(row, mask) for row, mask in zip(scores, true, strict=True)],
        "t2i": [sorted_truth(row, mask) for row, mask in zip(scores.T, true.T, strict=True)],
    }


def equal(ranks, i2t, t2i):
    np.testing.assert_array_equal(ranks.i2t, i2t)
    np.testing.assert_array_equal(ranks.t2i, t2i)


def a_split(images=12, captions=(2, 1, 3), signal=1.0, seed=0, prefix=""):
    """Scores of images with 2, 1, 3, 2, 1, 3 ... captions, true pairs lifted by `signal`."""
    owner = np.repeat(np.arange(images), np.resize(captions, images))
    scores = np.random.default_rng(seed).standard_normal((images, len(owner)))
    scores += signal * np.equal.outer(np.arange(images), owner)
    ids = [f"{prefix}{n}.jpg" for n in range(images)]
    own = [ids[n] for n in owner]
    return SplitScores(scores.astype("f4"), ids, [f"c{n}" for n in range(len(owner))], own, ids)


def split_of(scores, prefix=""):
    """Scores (N, M), M >= N; the captions are of the images in turn."""
    ids = [f"{prefix}{n}.jpg" for n in range(scores.shape[0])]
    captions = [f"c{n}" for n in range(scores.shape[1])]
    owners = [ids[n % len(ids)] for n in range(len(captions))]
    return SplitScores(np.asarray(scores, np.float32), ids, captions, owners, ids)


def five_each(images):
    return np.arange(images), np.repeat(np.arange(images), 5)


def no_better(summary, chance):
    for column in COLUMNS:
        sign = 1 if column.better == "larger" else -1
        value = column.of(chance)
        assert sign * (column.of(summary) - value) <= 1e-9 * value, column.label


def drawn_slowly(fold, resamples, random, metrics=None):
    """Slowest form of a bootstrap: copy the queries of every drawn group, summarise each draw, and
    draw anew where a direction has no query."""
    groups, drawn = int(max(fold.images.max(), fold.captions.max())) + 1, []
    codes = {"i2t": fold.images, "t2i": fold.captions}
    while len(drawn) < resamples:
        chosen = random.integers(groups, size=groups)
        if all(np.isin(chosen, own).any() for own in codes.values()):
            measured = {
                way: concatenated([fold.measured[way].of(own == group) for group in chosen])
                for way, own in codes.items()
            }
            drawn.append(summarise(measured, metrics))
    return drawn


def measured_with(ranks):
    """What queries with a single true item each reach, when those have the ranks (Q,)."""
    places = np.arange(1, max(ranks) + 1)
    scores = np.where(places < np.asarray(ranks)[:, None], 1.0, -1.0)  # others before and behind
    scores[:, -1] = 0.0
    return measure_direction(scores, np.full(len(ranks), len(places)), places, "i2t")


def both_with(i2t, t2i):
    return {"i2t": measured_with(i2t), "t2i": measured_with(t2i)}


def measure_direction(scores, images, captions, way):
    """What the queries of one direction reach; images (N,) and captions (M,): group numbers."""
    tiles = checked_scores(scores, len(images), len(captions))
    return measured_of([request_of_groups(tiles, images, captions, way)])[0]


def measure_judged(scores, positives, way):
    """What the queries of one direction that have positives reach, by all extended metrics."""
    return measured_of([request_of_positives(as_scores(scores), positives, way)])[0]
