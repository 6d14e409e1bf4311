"""Rank files: what comes back, and what is no rank file."""

import json

import numpy as np
import pytest

from pipeline.evaluation.criterion import Criterion
from pipeline.evaluation.figures import metrics_digest
from pipeline.evaluation.protocol import evaluate
from pipeline.evaluation.rank_file import METRICS, read_query_ranks, read_ranks, write_ranks
from pipeline.evaluation.score_file import SplitScores
from pipeline.features.groups import GroupFile, write_groups
from pipeline.runtime.errors import WorkbenchError

PEOPLE = ["p1", "p0", "p1"]
SCORES = np.array([[3, 1, 2, 0], [0, 1, 0, 2], [1, 0, 4, 3]], np.float32)
SPLIT = SplitScores(SCORES, list("abc"), list("wxyz"), ["c", "b", "a", "b"], PEOPLE)


def write(*paths):
    criteria = [Criterion("naive"), Criterion("csls", k=2)]
    evaluation = evaluate(SPLIT, 1, 20, 0.95, 0, criteria)
    for path in paths:
        write_ranks(path, SPLIT, evaluation, 0.95)
    return evaluation


def test_all_comes_back_and_bytes_are_equal(tmp_path):
    first, second = (tmp_path / folder / "m.h5" for folder in "12")
    evaluation = write(first, second)
    assert first.read_bytes() == second.read_bytes()
    record = read_ranks(first)
    assert (record.protocol, record.confidence) == ("full", 0.95)
    assert (record.intervals, record.chance) == (evaluation.intervals, evaluation.chance)
    assert json.loads(str(GroupFile(first).attributes["intervals"])) == evaluation.intervals
    for criterion, measured in evaluation.measured.items():
        run = read_query_ranks(first, criterion)
        assert run.protocol == "full"
        assert (run.i2t.ids, run.i2t.groups) == (list("abc"), PEOPLE)
        assert (run.t2i.ids, run.t2i.groups) == (list("wxyz"), ["p1", "p0", "p1", "p0"])
        for way, queries in (("i2t", run.i2t), ("t2i", run.t2i)):
            assert queries.measured.ranks.tolist() == measured[way].ranks.tolist()
            assert queries.measured.ranks.dtype == np.int64
            for metric in METRICS:
                values = queries.measured.values[metric.name]
                assert values.tolist() == measured[way].values[metric.name].tolist()
                assert values.dtype == np.float64


def test_every_dataset_but_the_queries_and_metrics_is_a_criterion(tmp_path):
    write(tmp_path / "r.h5")
    for name in ("sinkhorn", "ids", "groups", "naive.mapr", ""):
        with pytest.raises(WorkbenchError, match=rf"r\.h5: no .*{name!r}; it has csls, naive") as e:
            read_query_ranks(tmp_path / "r.h5", name)
        assert "inference.criteria" in e.value.hint


@pytest.mark.parametrize("text", [None, "{", "[" * 30_000])
def test_without_attributes_in_json_it_is_no_rank_file(tmp_path, text):
    attributes = {"protocol": "full", "intervals": "{}", "confidence": 0.95}
    attributes |= {} if text is None else {"chance": text}
    write_groups(tmp_path / "r.h5", {"i2t": {"ids": ["a"]}}, attributes)
    with pytest.raises(WorkbenchError, match=r"r\.h5: (not a rank file|damaged)"):
        read_ranks(tmp_path / "r.h5")


def test_the_file_knows_its_model_and_the_metrics_beside_it(tmp_path):
    evaluation = write(tmp_path / "own.h5")
    content = evaluation.summary() | {"shortlist": 2}
    write_ranks(tmp_path / "told.h5", SPLIT, evaluation, 0.95, content)
    own, told = (read_ranks(tmp_path / f"{name}.h5") for name in ("own", "told"))
    assert (own.name, told.name) == ("own", "told")
    assert own.metrics_sha256 == metrics_digest(evaluation.summary())
    assert told.metrics_sha256 == metrics_digest(content) != own.metrics_sha256
