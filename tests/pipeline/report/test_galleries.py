"""Galleries show what evaluation found, which test_look.py holds against sorting by hand."""

import re

import numpy as np
import pytest
from report_world import made_scores, page_of, put_corpus, put_model, taken_apart

from pipeline.evaluation.findings import SUCCESSES
from pipeline.evaluation.rank_file import read_findings
from pipeline.report.galleries import shown_score

PERSONS = [f"p{n // 2}" for n in range(12)]  # two images each: two true items for a caption


def test_the_page_shows_the_hits_with_failures_first(tmp_path):
    put_corpus(tmp_path, PERSONS)
    split = made_scores(0.35, groups=PERSONS)
    split.scores[:] = np.round(split.scores * 4) / 4
    put_model(tmp_path, "vse", split)
    found = read_findings(tmp_path / "ranks/vse.h5").hits
    ids = {"i2t": split.image_ids, "t2i": split.caption_ids}
    groups = {"i2t": split.image_groups, "t2i": split.caption_groups}
    galleries = list(taken_apart(page_of(tmp_path, "vse")).find("details", class_="gallery"))
    assert [gallery.attributes["data-direction"] for gallery in galleries] == ["t2i", "i2t"]
    for gallery, (way, other) in zip(galleries, (("t2i", "i2t"), ("i2t", "t2i")), strict=True):
        hits, articles = found[way], list(gallery.find("article"))
        assert [head.text for head in gallery.find("h4")] == ["Hardest failures", "Successes"]
        assert hits.ranks[-SUCCESSES:].tolist() == [1] * SUCCESSES
        assert (np.diff(hits.ranks) <= 0).all()
        said = f"{hits.failed} of {len(ids[way])} queries do not find"
        assert said in next(gallery.find("summary")).text
        for row, article in enumerate(articles):
            query, rank = hits.queries[row], hits.ranks[row]
            assert article.attributes["data-id"] == ids[way][query]
            assert re.search(rf"at rank {rank} of {len(ids[other])}\b", article.text)
            items = hits.items[row] if rank > 5 else hits.items[row][:5]
            shown = list(article.find("li"))
            assert [hit.attributes["data-id"] for hit in shown] == [ids[other][n] for n in items]
            truth = [groups[other][n] == groups[way][query] for n in items]
            assert ["true" in hit.attributes["class"].split() for hit in shown] == truth
            marks = [next(hit.find("span", class_="mark")).text for hit in shown]
            assert marks == ["✓ true" if is_true else "✗ false" for is_true in truth]
            places = [next(hit.find("span", class_="place")).text for hit in shown]
            assert places == [f"#{n}" for n in [1, 2, 3, 4, 5, rank][: len(items)]]


@pytest.mark.parametrize(
    ("score", "shown"), [(0.53249, "0.532"), (0.0, "0.000"), (2e-6, "2.0e-06"), (-7e4, "-7.0e+04")]
)
def test_scores_of_any_scale_can_be_told_apart(score, shown):
    assert shown_score(score) == shown
