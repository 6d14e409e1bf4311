"""The program behind `make bench`; what it measures is no matter of tests."""

import pytest

from benchmarks.__main__ import BEGIN, END, main, with_table
from benchmarks.common import Paired, Seconds, function_name, paired, shares, where_time_goes


def test_ratios_are_medians_of_the_pairs():
    """Not ratios of the medians: 4 / 3 on the clock, 2 / 2 of processor time."""
    ours, theirs = [(1, 2), (9, 4), (4, 1)], [(2, 2), (3, 1), (4, 4)]
    pairs = [(Seconds(*a), Seconds(*b)) for a, b in zip(ours, theirs, strict=True)]
    assert paired(pairs) == Paired(1, 1, Seconds(4, 2), Seconds(3, 2))


def test_functions_are_named_as_a_reader_looks_for_them():
    assert function_name("~", 0, "<built-in method builtins.sorted>") == "`sorted`"
    assert function_name("~", 0, "<method 'amax' of 'torch._C.TensorBase' objects>") == "`amax`"
    assert function_name("/a/pipeline/scores/tiles.py", 7, "tile") == "`scores/tiles.py:tile`"
    assert "%" in where_time_goes(lambda: sorted(range(1000)))


def test_small_shares_are_left_out():
    assert shares({"a": 1, "b": 7, "c": 0.1}) == "b 86%, a 12%"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["kmeens"], "error: no benchmark kmeens; there are criteria, cross_attention"),
        (["--page", "no.md", "kmeans"], "error: no.md is no page with the marks <!-- written"),
    ],
)
def test_what_there_is_not_is_refused_before_anything_is_measured(arguments, message, capsys):
    assert main(arguments) == 2
    assert message in capsys.readouterr().err


def test_a_page_keeps_what_lies_around_its_marks():
    page = f"# Before\n\n{BEGIN}old\n{END}\nafter\n"
    assert with_table(page, "new\n") == f"# Before\n\n{BEGIN}new\n{END}\nafter\n"
    assert with_table(f"{END}{BEGIN}", "new\n") == ""
