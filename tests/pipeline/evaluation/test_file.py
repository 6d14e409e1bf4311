"""Rank files: what comes back, and what is no rank file."""

import json

import numpy as np
import pytest

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


def put(path, attributes=(), **changes):
    """A rank file of two images and three captions; changes: way_dataset -> content."""
    content = {
        "i2t": {"ids": ["a", "b"], "groups": ["a", "b"], "naive": np.array([1, 3])},
        "t2i": {"ids": list("xyz"), "groups": list("aab"), "naive": np.array([2, 1, 1])},
    }
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
    assert run.i2t.ranks.tolist() == evaluation.ranks["naive"].i2t.tolist() == [1, 1, 1]
    assert run.t2i.ranks.tolist() == evaluation.ranks["naive"].t2i.tolist() == [1, 2, 1, 2]
    assert run.t2i.ranks.dtype == np.int64


def test_every_dataset_but_the_queries_is_a_criterion(tmp_path):
    path = put(tmp_path / "r.h5", i2t_csls=np.array([2, 2]), t2i_csls=np.array([1, 1, 2]))
    assert read_query_ranks(path, "csls").i2t.ranks.tolist() == [2, 2]
    assert read_query_ranks(path, "naive").i2t.ranks.tolist() == [1, 3]
    for name in ("sinkhorn", "ids", "groups", ""):
        with pytest.raises(WorkbenchError, match=rf"r\.h5: no .*{name!r}; it has csls, naive") as e:
            read_query_ranks(path, name)
        assert "inference.criterion" in e.value.hint


def test_a_criterion_of_one_direction_is_not_there(tmp_path):
    path = put(tmp_path / "r.h5", i2t_csls=np.array([2, 2]))
    with pytest.raises(WorkbenchError, match="'csls'; it has naive"):
        read_query_ranks(path, "csls")


def test_files_of_earlier_versions_have_no_groups_but_the_rest(tmp_path):
    path = put(tmp_path / "r.h5", i2t_groups=None, t2i_groups=None)
    assert read_ranks(path).caption_ids == list("xyz")
    with pytest.raises(WorkbenchError, match="earlier version") as error:
        read_query_ranks(path, "naive")
    assert error.value.hint == "write it again with: dvc repro evaluate"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"i2t_naive": np.array([0, 1])}, "i2t/naive holds ranks from 0 to 1; allowed are 1 to 3"),
        ({"t2i_naive": np.array([1, 1, 3])}, "t2i/naive holds ranks from 1 to 3; .* 1 to 2"),
        ({"t2i_naive": np.array([1, 1])}, r"t2i has 3 ids, 3 groups and naive of shape \(2,\)"),
        ({"i2t_naive": np.array([[1], [1]])}, r"naive of shape \(2, 1\)"),
        ({"i2t_naive": np.array([1.0, 2.0])}, "type float64; expected"),
        ({"i2t_groups": ["a"]}, "i2t has 2 ids, 1 groups"),
    ],
)
def test_ranks_that_cannot_be_are_named(tmp_path, changes, message):
    path = put(tmp_path / "r.h5", **changes)
    with pytest.raises(WorkbenchError, match=rf"r\.h5: {message}|r\.h5: .*{message}"):
        read_query_ranks(path, "naive")


@pytest.mark.parametrize("text", ["{", "[" * 30_000])
def test_attributes_that_are_no_json_are_no_rank_file(tmp_path, text):
    with pytest.raises(WorkbenchError, match=r"r\.h5: (not a rank file|damaged)"):
        read_ranks(put(tmp_path / "r.h5", {"chance": text}))


def test_ranks_are_written_in_equal_bytes_and_readable_json(tmp_path):
    split = a_split()
    evaluation = evaluate(split, 1, 20, 0.95, seed=0)
    for name in "12":
        write_ranks(tmp_path / name, split, evaluation, 0.95)
    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()
    file = GroupFile(tmp_path / "1")
    assert json.loads(str(file.attributes["intervals"])) == evaluation.intervals
    assert file.names("i2t") == file.names("t2i") == {"ids", "groups", "naive"}
