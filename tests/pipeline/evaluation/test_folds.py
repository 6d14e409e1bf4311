"""Protocols, folds and intervals against plain loops."""

import json

import numpy as np
import pytest
from ranking_cases import both_with, measure_direction

from pipeline.evaluation.bootstrap import MeasuredFold, bootstrap_intervals
from pipeline.evaluation.columns import COLUMNS, METRICS
from pipeline.evaluation.criteria import CRITERIA
from pipeline.evaluation.criterion import Criterion
from pipeline.evaluation.figures import joined, summarise
from pipeline.evaluation.file import read_ranks, write_ranks
from pipeline.evaluation.folds import evaluate
from pipeline.evaluation.measure import measure
from pipeline.evaluation.protocol import cut_folds, protocol_name
from pipeline.runtime.errors import WorkbenchError
from pipeline.scores.file import SplitScores
from pipeline.scores.groups import group_codes
from pipeline.storage.groups import GroupFile


def a_split(images=12, captions=(2, 1, 3), signal=1.0, seed=0):
    """Scores of `images` images with 2, 1, 3, 2, 1, 3 ... captions, true pairs lifted by signal."""
    random = np.random.default_rng(seed)
    owner = np.repeat(np.arange(images), np.resize(captions, images))
    scores = random.standard_normal((images, len(owner)))
    scores += signal * np.equal.outer(np.arange(images), owner)
    ids = [f"{n}.jpg" for n in range(images)]
    return SplitScores(
        scores=scores.astype(np.float32),
        image_ids=ids,
        caption_ids=[f"c{n}" for n in range(len(owner))],
        caption_image_ids=[ids[n] for n in owner],
        image_groups=ids,
    )


WAYS = ("i2t", "t2i")


def same(found, expected):
    """Ranks and all metrics of queries are equal."""
    np.testing.assert_array_equal(found.ranks, expected.ranks)
    assert list(found.values) == [metric.name for metric in METRICS]
    for name, values in expected.values.items():
        np.testing.assert_array_equal(found.values[name], values)


def run(split, folds=1, resamples=0):
    return evaluate(split, folds, resamples, confidence=0.95, seed=0)


def test_full_protocol_is_the_summary_of_all_ranks():
    split = a_split()
    evaluation = run(split)
    measured = measure(split.scores, split.image_groups, split.caption_groups)
    assert list(evaluation.summary()) == ["naive", "protocol"]
    assert evaluation.protocol == "full"
    assert evaluation.intervals == {}
    expected = summarise(measured)
    for way in WAYS:
        same(evaluation.measured["naive"][way], measured[way])
        assert evaluation.metrics["naive"][way] == pytest.approx(expected[way], abs=1e-4)
    assert evaluation.metrics["naive"]["rsum"] == pytest.approx(expected["rsum"], abs=1e-4)


@pytest.mark.parametrize("name", [name for name in CRITERIA if name != "naive"])
def test_a_criterion_rescores_every_fold_by_itself_and_is_labelled(name):
    split = a_split(images=12)
    criterion = Criterion(name, beta=5.0, k=2, iterations=10)
    evaluation = evaluate(split, 3, 0, 0.95, 0, (Criterion("naive"), criterion))
    assert list(evaluation.summary()) == ["naive", name, "protocol"]
    assert evaluation.metrics["naive"] == run(split, folds=3).metrics["naive"]
    assert evaluation.metrics[name]["transductive"] is True
    owner = np.repeat(np.arange(12), np.resize((2, 1, 3), 12))
    for start in (0, 4, 8):
        rows, columns = np.arange(start, start + 4), np.isin(owner, range(start, start + 4))
        inside, codes = split.scores[rows][:, columns], group_codes(rows, owner[columns])
        for way, queries in zip(WAYS, (rows, columns), strict=True):
            expected = measure_direction(criterion.rescored(inside, way), *codes, way)
            same(evaluation.measured[name][way].of(queries), expected)


def test_metrics_file_survives_json_and_has_short_numbers():
    summary = run(a_split(images=7)).summary()
    assert json.loads(json.dumps(summary)) == summary
    assert all(round(value, 4) == value for value in summary["naive"]["t2i"].values())


def test_folds_are_evaluated_apart_and_averaged():
    split = a_split(images=12)
    evaluation = run(split, folds=3)
    groups, caption_groups = np.arange(12), np.repeat(np.arange(12), np.resize((2, 1, 3), 12))
    summaries = []
    for start in (0, 4, 8):
        inside = np.isin(caption_groups, range(start, start + 4))
        measured = measure(
            split.scores[start : start + 4, inside],
            groups[start : start + 4],
            caption_groups[inside],
        )
        summaries.append(summarise(measured))
        same(evaluation.measured["naive"]["t2i"].of(inside), measured["t2i"])
    assert evaluation.protocol == "4_x3"
    for column in COLUMNS:
        mean = np.mean([column.of(summary) for summary in summaries])
        assert column.of(evaluation.metrics["naive"]) == pytest.approx(mean, abs=1e-4)
    assert evaluation.chance["t2i"]["r1"] == 25.0


def test_captions_in_any_order_fall_into_the_fold_of_their_image():
    split = a_split(images=6)
    order = np.random.default_rng(1).permutation(len(split.caption_ids))
    shuffled = SplitScores(
        scores=split.scores[:, order],
        image_ids=split.image_ids,
        caption_ids=[split.caption_ids[n] for n in order],
        caption_image_ids=[split.caption_image_ids[n] for n in order],
        image_groups=split.image_groups,
    )
    first, second = run(split, folds=2), run(shuffled, folds=2)
    assert first.metrics == second.metrics
    same(first.measured["naive"]["t2i"].of(order), second.measured["naive"]["t2i"])


@pytest.mark.parametrize(
    ("images", "folds", "name"),
    [(5000, 1, "full"), (5000, 5, "1k_x5"), (1000, 5, "200_x5"), (6000, 3, "2k_x3")],
)
def test_protocol_names(images, folds, name):
    assert protocol_name(images, folds) == name


@pytest.mark.parametrize(("images", "name"), [(1000, "first_1k"), (200, "first_200")])
def test_protocol_names_of_a_subset(images, name):
    assert protocol_name(images, 1, cut=True) == name


def test_folds_that_do_not_divide_the_images_name_those_that_do():
    with pytest.raises(WorkbenchError, match=r"folds = 5: .* 12 test .* 1, 2, 3, 4, 6, 12"):
        run(a_split(), folds=5)
    with pytest.raises(WorkbenchError, match="folds = 13"):
        run(a_split(), folds=13)


def test_folds_must_not_divide_a_person():
    people = np.array([0, 0, 1, 1, 1, 2])
    assert [len(fold.images) for fold in cut_folds(people, np.array([0, 1, 2]), 1)] == [6]
    with pytest.raises(WorkbenchError, match="divide 1 persons"):
        cut_folds(people, np.array([0, 1, 2]), 2)
    with pytest.raises(WorkbenchError, match="divide 2 persons"):
        cut_folds(np.array([0, 1, 0, 1]), np.array([0, 1]), 2)


def test_nan_constant_and_one_image():
    split = a_split(images=1)
    assert run(split, resamples=20).metrics["naive"]["rsum"] == 600.0
    split = a_split(images=40)
    split.scores[:] = 0.5
    evaluation = run(split, resamples=20)
    assert evaluation.metrics["naive"]["rsum"] == 0
    assert evaluation.metrics["naive"]["t2i"]["medr"] == 40
    assert evaluation.intervals["naive"]["rsum"] == [0, 0]
    split.scores[3, 4] = np.nan
    with pytest.raises(WorkbenchError, match="image 3 and caption 4"):
        run(split)


def intervals_by_drawing(fold, resamples, random):
    """Slowest form: copy the queries of every drawn group, summarise each draw."""
    groups = fold.images.max() + 1
    drawn = []
    for _ in range(resamples):
        chosen = random.integers(groups, size=groups)
        measured = {
            way: joined([fold.measured[way].of(codes == group) for group in chosen])
            for way, codes in zip(WAYS, (fold.images, fold.captions), strict=True)
        }
        drawn.append(summarise(measured))
    return drawn


def a_fold(groups=30):
    random = np.random.default_rng(5)
    captions = np.repeat(np.arange(groups), np.resize((2, 1, 3), groups))
    images = np.concatenate([np.arange(groups), [0, 0, 4]])
    ranks = random.geometric(0.2, len(images)), random.geometric(0.1, len(captions))
    measured = both_with(*ranks)
    for queries in measured.values():  # numbers between those that a single true item can give
        queries.values["mapr"][:] = 100 * random.random(len(queries.ranks))
    return MeasuredFold(measured, images, captions)


def test_intervals_equal_copying_the_drawn_queries():
    fold = a_fold()
    intervals = bootstrap_intervals([fold], 200, 0.9, seed=7)
    drawn = intervals_by_drawing(fold, 200, np.random.default_rng(7))
    for column in COLUMNS:
        expected = np.percentile([column.of(draw) for draw in drawn], [5, 95])
        assert column.of(intervals) == pytest.approx(expected), column.label


@pytest.mark.parametrize("seed", range(8))
def test_a_single_draw_is_its_own_interval(seed):
    """Seeds enough for medians that lie between two ranks."""
    fold = a_fold(groups=6)
    intervals = bootstrap_intervals([fold], 1, 0.9, seed)
    (draw,) = intervals_by_drawing(fold, 1, np.random.default_rng(seed))
    for column in COLUMNS:
        value = column.of(draw)
        assert column.of(intervals) == pytest.approx([value, value]), column.label


def test_intervals_are_the_same_in_blocks(monkeypatch):
    whole = bootstrap_intervals([a_fold()], 50, 0.95, seed=1)
    monkeypatch.setattr("pipeline.evaluation.bootstrap.CELLS", 100)
    assert bootstrap_intervals([a_fold()], 50, 0.95, seed=1) == whole
    assert bootstrap_intervals([a_fold()], 50, 0.95, seed=2) != whole


def test_intervals_of_folds_are_of_the_mean_over_folds():
    fold = a_fold()
    random = np.random.default_rng(3)
    drawn = [intervals_by_drawing(fold, 60, random) for _ in range(2)]
    means = [np.mean([a["rsum"], b["rsum"]]) for a, b in zip(*drawn, strict=True)]
    intervals = bootstrap_intervals([fold, fold], 60, 0.95, seed=3)
    assert intervals["rsum"] == pytest.approx(np.percentile(means, [2.5, 97.5]))


def test_intervals_cover_the_truth_about_as_often_as_they_say():
    """Ranks of an image's captions equal: single captions drawn would make intervals too narrow."""
    random = np.random.default_rng(11)
    codes, covered = np.repeat(np.arange(60), 5), 0
    for seed in range(120):
        hits = np.where(random.random(60) < 0.4, 1, 50)
        fold = MeasuredFold(both_with(hits, np.repeat(hits, 5)), np.arange(60), codes)
        low, high = bootstrap_intervals([fold], 200, 0.95, seed)["t2i"]["r1"]
        covered += low <= 40 <= high
    assert 0.85 <= covered / 120 <= 1


def test_rank_file_round_trip_and_bytes(tmp_path):
    split = a_split()
    evaluation = run(split, folds=2, resamples=10)
    first, second = (tmp_path / folder / "m.h5" for folder in "12")
    for path in (first, second):
        write_ranks(path, split, evaluation, 0.95)
    assert first.read_bytes() == second.read_bytes()
    record, file = read_ranks(first), GroupFile(first)
    assert (record.protocol, record.confidence) == ("6_x2", 0.95)
    assert record.intervals == evaluation.intervals
    assert record.chance == evaluation.chance
    assert record.caption_ids == split.caption_ids
    assert file.texts("i2t", "ids") == split.image_ids
    for way, measured in evaluation.measured["naive"].items():
        np.testing.assert_array_equal(file.array(way, "naive"), measured.ranks)
        for name, values in measured.values.items():
            np.testing.assert_array_equal(file.array(way, f"naive.{name}"), values)


def test_a_file_of_other_content_is_no_rank_file(tmp_path):
    from pipeline.scores.file import write_scores

    write_scores(tmp_path / "s.h5", {"test": a_split()}, {})
    with pytest.raises(WorkbenchError, match=r"s\.h5: not a rank file: .*protocol"):
        read_ranks(tmp_path / "s.h5")
