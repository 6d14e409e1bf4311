"""Which tests meet a mutant: those that call the broken function, in a process of theirs or not."""

from tests.mutants.runs import noticed, record

PACKAGE = """
def near(x):
    return x + 1


def far(x):
    return x - 1


def unmet(x):
    return x
"""
TESTS = """
import os

import pytest

from package.numbers import far, near


@pytest.mark.parametrize("x", [1, 2])
def test_near(x):
    assert near(x) == x + 1


def test_far_in_another_process():
    child = os.fork()
    if child == 0:
        os._exit(far(1))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_that_fails():
    assert near(1) == 1
"""


def test_calls_are_recorded_in_processes_that_tests_fork_too(tmp_path):
    tree = tmp_path / "tree"
    (tree / "package").mkdir(parents=True)
    (tree / "package/numbers.py").write_text(PACKAGE)
    (tree / "test_numbers.py").write_text(TESTS)
    files = ["test_numbers.py"]
    found = record(tree, ["package/"], files, tmp_path / "kept/calls.json")
    assert found["calls"] == {
        "package/numbers.py:2": [
            "test_numbers.py::test_near[1]",
            "test_numbers.py::test_near[2]",
            "test_numbers.py::test_that_fails",
        ],
        "package/numbers.py:6": ["test_numbers.py::test_far_in_another_process"],
    }
    assert found["failed"] == ["test_numbers.py::test_that_fails"]
    assert record(tree, [], [], tmp_path / "kept/calls.json") == found
    assert [*(tmp_path / "kept").iterdir()] == [tmp_path / "kept/calls.json"]

    assert noticed(tree, files, None, found["failed"], limit=60) == ""
    (tree / "package/numbers.py").write_text(PACKAGE.replace("x - 1", "x"))
    broken = noticed(tree, files, None, found["failed"], limit=60)
    assert broken == "test_numbers.py::test_far_in_another_process"
    assert noticed(tree, files, ["test_numbers.py::test_near[1]"], [], limit=60) == ""
