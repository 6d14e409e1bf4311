"""Extended positives beside groups: by criterion and fold, with intervals, in files."""

import json
from dataclasses import replace

import numpy as np
import pytest
from ranking_cases import measure_judged
from relevance_cases import relevance_from, sorted_grades

from pipeline.evaluation.bootstrap import MeasuredFold, bootstrap_intervals
from pipeline.evaluation.columns import EXTENDED
from pipeline.evaluation.criterion import Criterion
from pipeline.evaluation.figures import columns_of, joined, summarise
from pipeline.evaluation.file import read_query_ranks, read_ranks, write_ranks
from pipeline.evaluation.folds import evaluate
from pipeline.runtime.errors import WorkbenchError
from pipeline.scores.file import SplitScores
from pipeline.storage.groups import GroupFile

WAYS = ("i2t", "t2i")
COLUMNS = columns_of(EXTENDED)
IMAGES = 12
OWNERS = np.repeat(np.arange(IMAGES), 2)


def a_split(seed=0):
    scores = np.random.default_rng(seed).standard_normal((IMAGES, len(OWNERS)))
    scores += np.equal.outer(np.arange(IMAGES), OWNERS)
    ids = [f"{n}.jpg" for n in range(IMAGES)]
    captions = [f"c{n}" for n in range(len(OWNERS))]
    return SplitScores(scores.astype(np.float32), ids, captions, [ids[n] for n in OWNERS], ids)


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


def test_figures_by_groups_stay_as_they_are():
    without, beside = (
        run(None, 2, 20, ("naive", "csls")),
        run(some_grades(), 2, 20, ("naive", "csls")),
    )
    assert without.extended is None
    assert (without.metrics, without.intervals) == (beside.metrics, beside.intervals)
    expected = without.summary()
    assert beside.summary() == expected | {"extended": beside.summary()["extended"]}
    assert list(beside.summary()) == [*expected, "extended"]


@pytest.mark.parametrize("criterion", ["naive", "csls", "inverted_softmax"])
@pytest.mark.parametrize("folds", [1, 3])
def test_every_fold_ranks_its_judged_queries_by_the_criterion(criterion, folds):
    grades, scores = some_grades(), a_split().scores
    found = run(
        grades, folds, criteria=("naive", criterion) if criterion != "naive" else ("naive",)
    )
    made = Criterion(criterion, beta=5.0, k=2, iterations=10)
    size, summaries, queries = IMAGES // folds, [], {way: [] for way in WAYS}
    for start in range(0, IMAGES, size):
        rows = np.arange(start, start + size)
        columns = np.flatnonzero(np.isin(OWNERS, rows))
        part, truth = scores[np.ix_(rows, columns)], grades[np.ix_(rows, columns)]
        summary = {}
        for way, own in zip(WAYS, (rows, columns), strict=True):
            ranked = made.rescored(part, way) if made.transductive else part
            lines = zip(ranked, truth, strict=True)
            lines = lines if way == "i2t" else zip(ranked.T, truth.T, strict=True)
            lines = [(number, *line) for number, line in zip(own, lines, strict=True)]
            ordered = {n: sorted_grades(s, g) for n, s, g in lines if g.any()}
            queries[way] += list(ordered)
            summary[way] = {
                metric.name: metric.figure(
                    np.array(
                        [
                            metric.reference(line if metric.graded else [g > 0 for g in line])
                            for line in ordered.values()
                        ]
                    )
                )
                for metric in EXTENDED
            }
        summaries.append(summary)
    for way in WAYS:
        assert found.extended.queries[way].tolist() == queries[way]
        for metric in EXTENDED:
            mean = np.mean([summary[way][metric.name] for summary in summaries])
            figure = found.extended.metrics[criterion][way][metric.name]
            assert figure == pytest.approx(mean, abs=1e-4), metric.name
    said = found.summary()["extended"]
    assert said["positives"] == "mine"
    assert said["queries"] == {way: len(queries[way]) for way in WAYS}
    assert json.loads(json.dumps(said)) == said


def test_captions_in_any_order_are_the_same_queries():
    grades, split = some_grades(), a_split()
    order = np.random.default_rng(3).permutation(len(OWNERS))
    shuffled = replace(
        split,
        scores=split.scores[:, order],
        caption_ids=[split.caption_ids[n] for n in order],
        caption_image_ids=[split.caption_image_ids[n] for n in order],
    )
    first = evaluate(split, 3, 0, 0.95, 0, relevance=relevance_from(grades)).extended
    second = evaluate(shuffled, 3, 0, 0.95, 0, relevance=relevance_from(grades[:, order])).extended
    assert first.metrics == second.metrics
    places = {n: place for place, n in enumerate(first.queries["t2i"])}
    own = [places[order[n]] for n in second.queries["t2i"]]
    assert sorted(own) == list(range(len(places)))
    values = [found.measured["naive"]["t2i"].values["meanr"] for found in (first, second)]
    np.testing.assert_array_equal(values[0][own], values[1])


def test_a_fold_that_nothing_judges_is_named():
    grades = some_grades()
    grades[:4] = 0
    with pytest.raises(WorkbenchError, match=r"= mine: no pair for any image query among 4 images"):
        run(grades, folds=3)
    assert run(grades).extended.metrics["naive"]["rsum"] > 0


def measured_of(fold):
    relevance = relevance_from(some_grades())
    return {way: measure_judged(fold, relevance.positives(way), way) for way in WAYS}


def drawn_slowly(fold, resamples, random):
    """Copy the queries of every drawn group, draw anew without a query of a direction."""
    groups, drawn = int(max(fold.images.max(), fold.captions.max())) + 1, []
    while len(drawn) < resamples:
        chosen = random.integers(groups, size=groups)
        codes = dict(zip(WAYS, (fold.images, fold.captions), strict=True))
        if all(np.isin(chosen, codes[way]).any() for way in WAYS):
            measured = {
                way: joined([fold.measured[way].of(codes[way] == group) for group in chosen])
                for way in WAYS
            }
            drawn.append(summarise(measured, EXTENDED))
    return drawn


@pytest.mark.parametrize("images", [[0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 11], [3], [2, 5]])
def test_intervals_equal_copying_the_drawn_queries(images):
    """Also where few groups have image queries, so that draws without any come up."""
    measured = measured_of(a_split().scores)
    measured["i2t"] = measured["i2t"].of(np.arange(len(images)))
    captions = np.resize(np.arange(12), len(measured["t2i"].ranks))
    fold = MeasuredFold(measured, np.array(images), captions)
    found = bootstrap_intervals([fold], 1, 0.9, 4, EXTENDED)
    (draw,) = drawn_slowly(fold, 1, np.random.default_rng(4))
    for column in COLUMNS:
        assert column.of(found) == pytest.approx([column.of(draw)] * 2), column.label
    low, high = bootstrap_intervals([fold], 300, 0.9, 4, EXTENDED)["i2t"]["ndcg"]
    slow = [draw["i2t"]["ndcg"] for draw in drawn_slowly(fold, 300, np.random.default_rng(5))]
    spread = np.std(slow) + 1e-9
    assert abs(low - np.percentile(slow, 5)) <= spread
    assert abs(high - np.percentile(slow, 95)) <= spread


def test_the_rank_file_has_both_and_without_a_list_the_same_bytes_as_before(tmp_path):
    split, evaluation = a_split(), run(some_grades(), 3, 10, ("naive", "csls"))
    both, own, none = (tmp_path / folder / "m.h5" for folder in ("both", "own", "none"))
    write_ranks(both, split, evaluation, 0.95)
    write_ranks(own, split, replace(evaluation, extended=None), 0.95)
    write_ranks(none, split, run(None, 3, 10, ("naive", "csls")), 0.95)
    assert own.read_bytes() == none.read_bytes()
    assert set(GroupFile(none).layouts) == set(WAYS)
    assert read_ranks(none).extended == {}
    record, file = read_ranks(both), GroupFile(both)
    extended = evaluation.extended
    assert record.extended == {
        "positives": "mine",
        "intervals": extended.intervals,
        "chance": extended.chance,
    }
    for way, ids in zip(WAYS, (split.image_ids, split.caption_ids), strict=True):
        own = f"extended_{way}"
        assert file.texts(own, "ids") == [ids[n] for n in extended.queries[way]]
        groups = np.asarray(split.image_groups if way == "i2t" else split.caption_groups)
        assert file.texts(own, "groups") == groups[extended.queries[way]].tolist()
        for criterion in ("naive", "csls"):
            measured = extended.measured[criterion][way]
            np.testing.assert_array_equal(file.array(own, criterion), measured.ranks)
            np.testing.assert_array_equal(
                file.array(own, f"{criterion}.ndcg"), measured.values["ndcg"]
            )
    assert read_query_ranks(both, "csls").protocol == "4_x3"
