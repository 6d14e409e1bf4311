"""What evaluation writes for pages against the slow forms, and that it comes back."""

import numpy as np
import pytest
from report_world import CSLS, made_scores

from pipeline.evaluation.criterion import Criterion
from pipeline.evaluation.findings import FAILURES, SUCCESSES, collect_findings, hardest, successful
from pipeline.evaluation.protocol import evaluate
from pipeline.evaluation.rank_file import read_findings, write_ranks
from pipeline.runtime.errors import WorkbenchError

CRITERIA = [Criterion("naive"), CSLS]
PERSONS = [f"p{n // 2}" for n in range(12)]  # two images each: two true items for a caption
SOURCE = {"model": "vse", "epoch": 7, "schema_version": 1}


def read_again(folder, split, folds=1, criteria=CRITERIA):
    evaluation = evaluate(split, folds, 0, 0.95, 0, criteria)
    findings = collect_findings(split, evaluation, criteria, SOURCE)
    write_ranks(folder / "vse.h5", split, evaluation, 0.95, findings=findings)
    return read_findings(folder / "vse.h5")


def slow_ranking(split, way, query):
    """[(item, is true, score)] from first to last; of equal scores the false item first."""
    own, others, lines = split.image_groups, split.caption_groups, split.scores
    if way == "t2i":
        own, others, lines = others, own, lines.T
    row = lines[query]
    items = [(n, others[n] == own[query], float(row[n])) for n in range(len(row))]
    return sorted(items, key=lambda item: (-item[2], item[1]))


@pytest.mark.parametrize(("groups", "folds", "ties"), [(None, 1, 1000), (PERSONS, 2, 4)])
def test_hits_are_the_first_items_and_the_best_true_one(tmp_path, groups, folds, ties):
    split = made_scores(0.35, groups=groups)
    split.scores[:] = np.round(split.scores * ties) / ties
    found = read_again(tmp_path, split, folds)
    for way, queries in (("i2t", 12), ("t2i", 30)):
        rankings = [slow_ranking(split, way, query) for query in range(queries)]
        ranks = [1 + [is_true for _, is_true, _ in own].index(True) for own in rankings]
        hits = found.hits[way]
        assert hits.failed == sum(rank > 1 for rank in ranks)
        assert hits.ranks.tolist() == [ranks[query] for query in hits.queries]
        assert hits.ranks[0] == max(ranks)
        for row, query in enumerate(hits.queries):
            shown = [*rankings[query][:5], rankings[query][ranks[query] - 1]]
            assert hits.items[row].tolist() == [item for item, _, _ in shown]
            assert hits.scores[row].tolist() == [score for _, _, score in shown]


def test_hubs_are_counted_over_the_whole_split(tmp_path):
    split = made_scores(0.1, seed=3)
    found = read_again(tmp_path, split, folds=2)
    assert found.source == {"model": "vse", "epoch": "7"}
    assert set(found.hubs) == {"naive", "csls"}
    for way, axis in (("i2t", 1), ("t2i", 0)):
        for criterion in CRITERIA:
            matrix = criterion.rescored(split.scores, way)
            expected = np.bincount(matrix.argmax(axis), minlength=matrix.shape[axis])
            np.testing.assert_array_equal(found.hubs[criterion.name][way], expected)


def test_a_criterion_that_can_rank_folds_alone_has_no_hubs(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("pipeline.evaluation.assignment.PAIR_LIMIT", 300)
    found = read_again(tmp_path, made_scores(0.3), 3, [Criterion("naive"), Criterion("hungarian")])
    assert set(found.hubs) == {"naive"}
    assert "no hubs under hungarian: inference.criteria: hungarian: 12" in capsys.readouterr().err


def test_ranks_of_an_earlier_version_say_how_to_get_the_rest(tmp_path):
    split = made_scores(0.3)
    write_ranks(tmp_path / "vse.h5", split, evaluate(split, 1, 0, 0.95, 0), 0.95)
    with pytest.raises(WorkbenchError, match=r"vse\.h5: without hubs, .* earlier version") as error:
        read_findings(tmp_path / "vse.h5")
    assert error.value.hint == "write it again with: dvc repro evaluate"


def test_one_query_of_a_group_and_no_more_than_asked_for():
    ranks = np.array([9, 8, 7, 1, 6, 9, 5, 4, 3, 2, 2])
    groups = np.array([0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
    assert hardest(ranks, groups) == [0, 5, 2, 4, 6, 7]
    assert len(hardest(ranks, groups)) == FAILURES
    assert hardest(np.array([1, 1]), np.array([0, 1])) == []


@pytest.mark.parametrize(
    ("found", "chosen"), [(0, []), (1, [0]), (2, [0, 1]), (4, [1, 2]), (301, [100, 200])]
)
def test_successes_are_spread_evenly(found, chosen):
    assert successful(np.ones(found, np.int64)) == chosen
    assert len(chosen) <= SUCCESSES
    assert successful(np.full(3, 2)) == []


def test_a_model_without_failures_and_one_without_successes(tmp_path):
    for sign, failed in ((1, 0), (-1, 30)):
        split = made_scores(0.0)
        true = np.equal.outer(split.image_groups, split.caption_groups)
        split.scores[:] = np.where(true, sign, 0)
        hits = read_again(tmp_path, split).hits["t2i"]
        assert hits.failed == failed
        assert set(hits.ranks.tolist()) == ({12} if failed else {1})
