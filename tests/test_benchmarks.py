"""The program behind `make bench`; what it measures is no matter of tests."""

import os
import subprocess
import sys

import pytest
from clone import ROOT

from benchmarks.__main__ import NAMES, main
from benchmarks.common import Cost, Paired, Row, paired


def test_ratios_are_medians_of_the_pairs():
    """Not ratios of the medians: 4 / 3 on the clock, 2 / 2 of processor time."""
    ours, theirs = [(1, 2), (9, 4), (4, 1)], [(2, 2), (3, 1), (4, 4)]
    pairs = [(Cost(*a), Cost(*b)) for a, b in zip(ours, theirs, strict=True)]
    assert paired(pairs) == Paired(1, 1, Cost(4, 2), Cost(3, 2))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["kmeens"], "error: no benchmark kmeens; there are beside, criteria, cross_attention"),
        (["--page", "no.md", "kmeans"], "error: no.md is no page with the marks <!-- written"),
    ],
)
def test_what_there_is_not_is_refused_before_anything_is_measured(arguments, message, capsys):
    assert main(arguments) == 2
    assert message in capsys.readouterr().err


def test_a_target_is_reached_when_every_value_keeps_its_bound():
    assert Row("a", "b").reached is None
    assert Row("a", "b", ">= 3,000/s, < 300 MB", (3000, 299.9)).reached is True
    assert Row("a", "b", ">= 3,000/s, < 300 MB", (3000, 300)).reached is False
    assert Row("a", "b", "<= 1.0001x of its inertia", 1.0002).reached is False


@pytest.mark.slow
def test_every_benchmark_runs_in_small(tmp_path):
    """Their code fell behind the code that they measure; what they say in small means nothing."""
    small = os.environ | {"BENCHMARKS_SMALL": "1"}

    def said(*words):
        command = [sys.executable, "-m", *words]
        done = subprocess.run(command, cwd=ROOT, env=small, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-4000:]
        return done

    began = said("benchmarks").stderr
    assert [name for name in NAMES if f"{name} ..." not in began] == []
    assert "| `prepare_corpus` |" in said("benchmarks.scale", str(tmp_path)).stdout
