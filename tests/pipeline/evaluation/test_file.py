"""Rank files: what comes back, and what is no rank file."""

import json

import numpy as np
import pytest
from ranking_cases import measured_with

from pipeline.evaluation.columns import METRICS
from pipeline.evaluation.figures import metrics_digest
from pipeline.evaluation.file import read_query_ranks, read_ranks, write_ranks
from pipeline.evaluation.folds import evaluate
from pipeline.runtime.errors import WorkbenchError
from pipeline.scores.file import SplitScores
from pipeline.storage.groups import GroupFile, write_groups

PEOPLE = ["p1", "p0", "p1"]
ATTRIBUTES = {"protocol": "full", "intervals": "{}", "confidence": 0.95, "chance": "{}"}


def a_split():
    scores = np.array([[3, 1, 2, 0], [0, 1, 0, 2], [1, 0, 4, 3]], np.float32)
    return SplitScores(scores, list("abc"), list("wxyz"), ["c", "b", "a", "b"], PEOPLE)


def reached(criterion, *ranks):
    """Datasets of queries with these ranks under a criterion."""
    measured = measured_with(ranks)
    values = {f"{criterion}.{name}": numbers for name, numbers in measured.values.items()}
    return {criterion: measured.ranks, **values}


def put(path, attributes=(), more=(), **changes):
    """A rank file of two images and three captions.

    more: way -> datasets beside naive; changes: way_dataset -> content.
    """
    content = {
        "i2t": {"ids": ["a", "b"], "groups": ["a", "b"], **reached("naive", 1, 3)},
        "t2i": {"ids": list("xyz"), "groups": list("aab"), **reached("naive", 2, 1, 1)},
    }
    for way, datasets in dict(more).items():
        content[way] |= datasets
    for key, value in changes.items():
        way, _, name = key.partition("_")
        content[way][name] = value
        if value is None:
            del content[way][name]
    write_groups(path, content, ATTRIBUTES | dict(attributes))
    return path


def test_ranks_ids_and_groups_come_back(tmp_path):
    split = a_split()
    evaluation = evaluate(split, 1, 0, 0.95, seed=0)
    write_ranks(tmp_path / "r.h5", split, evaluation, 0.95)
    run = read_query_ranks(tmp_path / "r.h5", "naive")
    assert run.protocol == "full"
    assert (run.i2t.ids, run.i2t.groups) == (["a", "b", "c"], PEOPLE)
    assert (run.t2i.ids, run.t2i.groups) == (list("wxyz"), ["p1", "p0", "p1", "p0"])
    assert run.i2t.measured.ranks.tolist() == [1, 1, 1]
    assert run.t2i.measured.ranks.tolist() == [1, 2, 1, 2]
    for way, queries in (("i2t", run.i2t), ("t2i", run.t2i)):
        written = evaluation.measured["naive"][way]
        assert queries.measured.ranks.tolist() == written.ranks.tolist()
        assert queries.measured.ranks.dtype == np.int64
        for metric in METRICS:
            values = queries.measured.values[metric.name]
            assert values.tolist() == written.values[metric.name].tolist()
            assert values.dtype == np.float64


def test_every_dataset_but_the_queries_and_metrics_is_a_criterion(tmp_path):
    csls = {"i2t": reached("csls", 2, 2), "t2i": reached("csls", 1, 1, 2)}
    path = put(tmp_path / "r.h5", more=csls)
    assert read_query_ranks(path, "csls").i2t.measured.ranks.tolist() == [2, 2]
    assert read_query_ranks(path, "csls").i2t.measured.values["r1"].tolist() == [0, 0]
    assert read_query_ranks(path, "naive").i2t.measured.ranks.tolist() == [1, 3]
    for name in ("sinkhorn", "ids", "groups", "naive.mapr", ""):
        with pytest.raises(WorkbenchError, match=rf"r\.h5: no .*{name!r}; it has csls, naive") as e:
            read_query_ranks(path, name)
        assert "inference.criteria" in e.value.hint


def test_a_criterion_of_one_direction_is_not_there(tmp_path):
    path = put(tmp_path / "r.h5", more={"i2t": reached("csls", 2, 2)})
    with pytest.raises(WorkbenchError, match="'csls'; it has naive"):
        read_query_ranks(path, "csls")


def test_files_from_before_a_metric_say_how_to_get_it(tmp_path):
    path = put(tmp_path / "r.h5", **{"t2i_naive.mapr": None})
    with pytest.raises(
        WorkbenchError, match=r"t2i has no naive\.mapr, the mAP@R of .* earlier"
    ) as e:
        read_query_ranks(path, "naive")
    assert e.value.hint == "write it again with: dvc repro evaluate"


@pytest.mark.parametrize("text", ["{", "[" * 30_000])
def test_attributes_that_are_no_json_are_no_rank_file(tmp_path, text):
    with pytest.raises(WorkbenchError, match=r"r\.h5: (not a rank file|damaged)"):
        read_ranks(put(tmp_path / "r.h5", {"chance": text}))


def test_ranks_are_written_in_equal_bytes_and_readable_json(tmp_path):
    split = a_split()
    evaluation = evaluate(split, 1, 20, 0.95, seed=0)
    first, second = (tmp_path / folder / "m.h5" for folder in "12")
    for path in (first, second):
        write_ranks(path, split, evaluation, 0.95)
    assert first.read_bytes() == second.read_bytes()
    file = GroupFile(first)
    assert json.loads(str(file.attributes["intervals"])) == evaluation.intervals
    values = {f"naive.{metric.name}" for metric in METRICS}
    assert file.names("i2t") == file.names("t2i") == {"ids", "groups", "naive", *values}


def test_the_file_knows_its_model_and_the_metrics_beside_it(tmp_path):
    split = a_split()
    evaluation = evaluate(split, 1, 0, 0.95, seed=0)
    content = evaluation.summary() | {"shortlist": 2}
    write_ranks(tmp_path / "own.h5", split, evaluation, 0.95)
    write_ranks(tmp_path / "told.h5", split, evaluation, 0.95, content)
    own, told = (read_ranks(tmp_path / f"{name}.h5") for name in ("own", "told"))
    assert (own.name, told.name) == ("own", "told")
    assert own.metrics_sha256 == metrics_digest(evaluation.summary())
    assert told.metrics_sha256 == metrics_digest(content) != own.metrics_sha256
