"""Extended positives beside groups: by criterion and fold, with intervals, in files."""

import json
from dataclasses import replace

import numpy as np
import pytest
from ranking_cases import a_split as split_of
from ranking_cases import drawn_slowly, measure_judged
from relevance_cases import relevance_from

from pipeline.evaluation.bootstrap import MeasuredFold, bootstrap_intervals
from pipeline.evaluation.criterion import Criterion
from pipeline.evaluation.figures import columns_of
from pipeline.evaluation.protocol import evaluate
from pipeline.evaluation.rank_file import EXTENDED, read_ranks, write_ranks
from pipeline.features.groups import GroupFile
from pipeline.runtime.errors import WorkbenchError

WAYS = ("i2t", "t2i")
COLUMNS = columns_of(EXTENDED)
IMAGES = 12
OWNERS = np.repeat(np.arange(IMAGES), 2)


def a_split():
    return split_of(IMAGES, (2,))


def some_grades(seed=1):
    """Own pairs and others; one image and three captions that nothing judges."""
    random = np.random.default_rng(seed)
    grades = random.choice([0, 0, 0, 0, 1, 3.5], (IMAGES, len(OWNERS)))
    grades = np.maximum(grades, np.equal.outer(np.arange(IMAGES), OWNERS))
    grades[5], grades[:, [0, 7, 21]] = 0, 0
    return grades


def run(grades, folds=1, resamples=0, criteria=("naive",)):
    made = [Criterion(name, beta=5.0, k=2, iterations=10) for name in criteria]
    relevance = None if grades is None else relevance_from(grades)
    return evaluate(a_split(), folds, resamples, 0.95, 0, made, None, relevance)


@pytest.mark.parametrize("criterion", ["naive", "csls", "inverted_softmax"])
@pytest.mark.parametrize("folds", [1, 3])
def test_every_fold_ranks_its_judged_queries_by_the_criterion(criterion, folds):
    grades, scores = some_grades(), a_split().scores
    found = run(grades, folds, criteria=dict.fromkeys(["naive", criterion]))
    made = Criterion(criterion, beta=5.0, k=2, iterations=10)
    size, summaries, queries = IMAGES // folds, [], {way: [] for way in WAYS}
    for start in range(0, IMAGES, size):
        rows = np.arange(start, start + size)
        columns = np.flatnonzero(np.isin(OWNERS, rows))
        part, truth = scores[np.ix_(rows, columns)], relevance_from(grades[np.ix_(rows, columns)])
        summary = {}
        for way, own in zip(WAYS, (rows, columns), strict=True):
            judged = truth.positives(way)
            measured = measure_judged(made.rescored(part, way), judged, way)
            queries[way] += own[judged.queries].tolist()
            for metric in EXTENDED:
                summary[way, metric.name] = metric.figure(measured.values[metric.name])
        summaries.append(summary)
    extended = found.extended
    assert {way: extended.queries[way].tolist() for way in WAYS} == queries
    for (way, name), figures in {k: [s[k] for s in summaries] for k in summaries[0]}.items():
        figure = extended.metrics[criterion][way][name]
        assert figure == pytest.approx(np.mean(figures), abs=1e-4), name
    said = found.summary()["extended"]
    assert said["positives"] == "mine"
    assert said["queries"] == {way: len(queries[way]) for way in WAYS}
    assert json.loads(json.dumps(said)) == said


def test_a_fold_that_nothing_judges_is_named():
    grades = some_grades()
    grades[:4] = 0
    with pytest.raises(WorkbenchError, match=r"= mine: no pair for any image query among 4 images"):
        run(grades, folds=3)
    assert run(grades).extended.metrics["naive"]["rsum"] > 0


def measured_of(fold):
    relevance = relevance_from(some_grades())
    return {way: measure_judged(fold, relevance.positives(way), way) for way in WAYS}


@pytest.mark.parametrize("images", [[0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 11], [3], [2, 5]])
def test_intervals_equal_copying_the_drawn_queries(images):
    """Also where few groups have image queries, so that draws without any come up."""
    measured = measured_of(a_split().scores)
    measured["i2t"] = measured["i2t"].of(np.arange(len(images)))
    captions = np.resize(np.arange(12), len(measured["t2i"].ranks))
    fold = MeasuredFold(measured, np.array(images), captions)
    for seed in range(8):
        found = bootstrap_intervals([fold], 1, 0.9, seed, EXTENDED)
        (draw,) = drawn_slowly(fold, 1, np.random.default_rng(seed), EXTENDED)
        for column in COLUMNS:
            assert column.of(found) == pytest.approx([column.of(draw)] * 2), column.label


def test_the_rank_file_has_both_and_without_a_list_the_same_bytes_as_before(tmp_path):
    split, evaluation = a_split(), run(some_grades(), 3, 10, ("naive", "csls"))
    both, own, none = (tmp_path / folder / "m.h5" for folder in ("both", "own", "none"))
    write_ranks(both, split, evaluation, 0.95)
    write_ranks(own, split, replace(evaluation, extended=None), 0.95)
    write_ranks(none, split, run(None, 3, 10, ("naive", "csls")), 0.95)
    assert own.read_bytes() == none.read_bytes()
    assert read_ranks(none).extended == {}
    extended, file = evaluation.extended, GroupFile(both)
    said = {"intervals": extended.intervals, "chance": extended.chance}
    assert read_ranks(both).extended == {"positives": "mine", **said}
    for way, ids in zip(WAYS, (split.image_ids, split.caption_ids), strict=True):
        assert file.texts(f"extended_{way}", "ids") == [ids[n] for n in extended.queries[way]]
        for criterion in ("naive", "csls"):
            measured = extended.measured[criterion][way]
            for name, values in (("", measured.ranks), (".ndcg", measured.values["ndcg"])):
                found = file.array(f"extended_{way}", criterion + name)
                np.testing.assert_array_equal(found, values)
