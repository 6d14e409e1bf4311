"""Galleries against the slow form: every query sorted by hand, truth taken from the groups."""

import re

import numpy as np
import pytest
from report_world import made_scores, page_of, put_corpus, put_model, taken_apart

from pipeline.evaluation.look import SUCCESSES
from pipeline.report.galleries import ShownHit
from pipeline.report.shelf import Entry

PERSONS = [f"p{n // 2}" for n in range(12)]  # two images each: two true items for a caption


def slow_ranking(split, direction, query):
    """[(item id, is true, score)] from first to last; of equal scores the false item first."""
    queries_are_images = direction == "i2t"
    row = split.scores[query] if queries_are_images else split.scores[:, query]
    own, others = split.image_groups, list(split.caption_groups)
    if not queries_are_images:
        own, others = others, own
    ids = split.caption_ids if queries_are_images else split.image_ids
    items = [(ids[n], others[n] == own[query], float(row[n])) for n in range(len(ids))]
    return sorted(items, key=lambda item: (-item[2], item[1]))


def slow_rank(split, direction, query):
    return 1 + [is_true for _, is_true, _ in slow_ranking(split, direction, query)].index(True)


@pytest.mark.parametrize("groups", [None, PERSONS], ids=["images", "persons"])
@pytest.mark.parametrize("tied", [False, True])
def test_the_page_shows_the_true_ranking(tmp_path, groups, tied):
    put_corpus(tmp_path, groups)
    split = made_scores(0.35, groups=groups)
    if tied:
        split.scores[:] = np.round(split.scores * 4) / 4
    put_model(tmp_path, "vse", split)
    galleries = list(taken_apart(page_of(tmp_path, "vse")).find("details", class_="gallery"))
    assert [gallery.attributes["data-direction"] for gallery in galleries] == ["t2i", "i2t"]
    for gallery in galleries:
        direction = gallery.attributes["data-direction"]
        ids = list(split.image_ids if direction == "i2t" else split.caption_ids)
        articles = list(gallery.find("article"))
        assert len(articles) >= 4
        for article in articles:
            query = ids.index(article.attributes["data-id"])
            ranking = slow_ranking(split, direction, query)
            rank = slow_rank(split, direction, query)
            shown = ranking[:5] + ([ranking[rank - 1]] if rank > 5 else [])
            hits = list(article.find("li"))
            assert [hit.attributes["data-id"] for hit in hits] == [name for name, _, _ in shown]
            green = ["true" in hit.attributes["class"].split() for hit in hits]
            assert green == [is_true for _, is_true, _ in shown]
            words = [next(hit.find("span", class_="mark")).text for hit in hits]
            assert words == ["✓ true" if is_true else "✗ false" for _, is_true, _ in shown]
            places = [*range(1, 6), *([rank] if rank > 5 else [])]
            assert [next(hit.find("span", class_="place")).text for hit in hits] == [
                f"#{place}" for place in places
            ]
            assert re.search(rf"at rank {rank} of {len(ranking)}\b", article.text)


def test_failures_come_hardest_first_and_before_successes(tmp_path):
    put_corpus(tmp_path)
    split = made_scores(0.35)
    put_model(tmp_path, "vse", split)
    for gallery in taken_apart(page_of(tmp_path, "vse")).find("details", class_="gallery"):
        heads = [head.text for head in gallery.find("h4")]
        assert heads == ["Hardest failures", "Successes"]
        ranks = [int(re.search(r"at rank (\d+) of", a.text)[1]) for a in gallery.find("article")]
        failures, successes = ranks[:-SUCCESSES], ranks[-SUCCESSES:]
        assert failures == sorted(failures, reverse=True)
        assert failures[-1] > 1
        assert successes == [1] * SUCCESSES
        direction = gallery.attributes["data-direction"]
        queries = len(split.image_ids if direction == "i2t" else split.caption_ids)
        every = [slow_rank(split, direction, query) for query in range(queries)]
        assert failures[0] == max(every)
        failed = sum(rank > 1 for rank in every)
        assert f"{failed} of {queries} queries do not find" in next(gallery.find("summary")).text


@pytest.mark.parametrize(
    ("score", "shown"),
    [
        (0.53249, "0.532"),
        (-0.00236, "-0.002"),
        (0.0, "0.000"),
        (2e-6, "2.0e-06"),
        (-7e4, "-7.0e+04"),
    ],
)
def test_scores_of_any_scale_can_be_told_apart(score, shown):
    assert ShownHit(Entry("a"), 1, score, True).shown_score == shown
