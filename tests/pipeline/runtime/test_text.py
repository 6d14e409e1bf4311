"""Text from outside: what git leaves of a merge is told from other damage."""

import json

import pytest
from commands import refusal
from hypothesis import given
from hypothesis import strategies as st

from pipeline.report.curve_files import read_curve
from pipeline.runtime.text import read_json, refuse_conflict

SIDES = '{\n<<<<<<< HEAD\n  "a": 1\n=======\n  "a": 2\n>>>>>>> other\n}\n'
CURVE = "epoch\tloss\tval_rsum\n<<<<<<< HEAD\n1\t2\t3\n=======\n1\t4\t5\n>>>>>>> other branch\n"


def test_a_json_file_with_both_sides_of_a_merge(tmp_path):
    path = tmp_path / "two words.json"
    path.write_text(SIDES)
    message, hint = refusal(read_json, path).splitlines()
    assert message == f"{path}, line 2: conflict markers of git: two branches have changed it"
    assert hint.startswith(f"choose a side: git checkout --theirs '{path}' (or --ours), likewise")
    path.write_text(SIDES.replace("=======\n", ""))
    assert "not valid JSON" in refusal(read_json, path)


def test_a_curve_with_both_sides_of_a_merge(tmp_path):
    path = tmp_path / "vse.tsv"
    path.write_text(CURVE)
    assert f"{path}, line 2: conflict markers of git" in refusal(read_curve, path)


@pytest.mark.parametrize("text", ["=======\n", ">>>>>>> quoted\n", "a <<<<<<< b\n=======\n", ""])
def test_what_is_no_conflict(tmp_path, text):
    refuse_conflict(text, tmp_path / "a.tsv")


@given(
    st.recursive(
        st.none() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_any_valid_json_is_read(tmp_path_factory, value):
    path = tmp_path_factory.getbasetemp() / "value.json"
    path.write_text(json.dumps(value, indent=1), encoding="utf-8")
    assert read_json(path) == value
