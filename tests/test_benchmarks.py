"""The program behind `make bench`; what it measures is no matter of tests."""

import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions

import pytest
import torch
from clone import ROOT

import benchmarks
from benchmarks.__main__ import (
    BEGIN,
    BEGIN_GPU,
    BY_NAME,
    COLUMNS,
    END,
    NAMES,
    main,
    samples_tsv,
    with_table,
)
from benchmarks.common import Cost, Paired, Row, paired, rows_apart

SMALL = {"BENCHMARKS_SMALL": "1"}


def test_ratios_are_medians_of_the_pairs():
    """Not ratios of the medians: 4 / 3 on the clock, 2 / 2 of processor time."""
    ours, theirs = [(1, 2), (9, 4), (4, 1)], [(2, 2), (3, 1), (4, 4)]
    pairs = [(Cost(*a), Cost(*b)) for a, b in zip(ours, theirs, strict=True)]
    assert paired(pairs) == Paired(1, 1, Cost(4, 2), Cost(3, 2))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["gpu", "kmeans"], "error: gpu is run alone"),
        (["kmeens"], "error: no benchmark kmeens; there are beside, captions, criteria"),
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


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without CUDA")
def test_without_a_gpu_its_benchmark_is_refused_with_the_way_out(capsys):
    assert main(["gpu"]) == 2
    assert "BENCHMARKS_SMALL=1 runs it on the CPU" in capsys.readouterr().err


def test_a_page_keeps_the_table_of_the_gpu_beside_the_other():
    page = f"a\n{BEGIN}old\n{END}b\n{BEGIN_GPU}{END}c\n"
    both = with_table(with_table(page, "new\n"), "gpu\n", BEGIN_GPU)
    assert both == f"a\n{BEGIN}new\n{END}b\n{BEGIN_GPU}gpu\n{END}c\n"
    assert with_table("a\n", "new\n") == with_table(f"{END}{BEGIN}", "new\n") == ""
    assert with_table((ROOT / "docs/benchmarks.md").read_text("utf-8"), "new", BEGIN_GPU)


def test_the_samples_behind_a_row_are_written_in_their_order():
    pair = paired([(Cost(1, 2), Cost(3, 4)), (Cost(5.5, 6), Cost(7, 8.123456))])
    rows = [Row("a", "2x", samples=(pair,)), Row("b", "3 MB", "< 4 MB", 3.0), Row("c", "said")]
    assert samples_tsv(rows).splitlines() == [
        "\t".join(COLUMNS),
        "a\t1\tours\t1 5.5\t2 6",
        "a\t1\treference\t3 7\t4 8.123",
        "b\t\tvalues 3\t\t",
        "c\t\tvalues\t\t",
    ]


def test_a_benchmark_that_fails_says_why(tmp_path, monkeypatch):
    """Its rows before are there already; each has the pairs measured since the last."""
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks/bench_cut.py").write_text(
        "from benchmarks.common import Cost, Row, paired\n"
        "def rows():\n"
        "    for number in range(2):\n"
        "        paired([(Cost(1, 1), Cost(2, 2))])\n"
        "        yield Row(str(number), '')\n"
        "    raise ValueError('no more')\n"
    )
    monkeypatch.setattr(benchmarks, "__path__", [*benchmarks.__path__, f"{tmp_path}/benchmarks"])
    monkeypatch.setattr("benchmarks.common.SMALL", True)  # by a fork, which knows this folder
    found = []
    with pytest.raises(RuntimeError, match="ValueError: no more"):  # noqa: PT012
        for row in rows_apart("cut"):
            found.append(row)
    assert [(row.work, len(row.samples)) for row in found] == [("0", 1), ("1", 1)]


def run_small(*words):
    done = subprocess.run(
        [sys.executable, *words],
        cwd=ROOT,
        env=os.environ | SMALL,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done


@pytest.mark.slow
def test_every_benchmark_runs_in_small(tmp_path):
    """Their code fell behind the code that they measure; what they say in small means nothing."""
    began = run_small("-m", "benchmarks").stderr
    left_out = [name for name in NAMES if f"{name} ..." not in began]
    assert left_out == sorted(BY_NAME)
    run_small("-m", "benchmarks", "beside")
    assert "| `prepare_corpus` |" in run_small("-m", "benchmarks.scale", str(tmp_path)).stdout


@pytest.mark.slow
def test_the_benchmark_of_a_gpu_runs_with_the_packages_that_it_names():
    """On the CPU, in small, as it would on a machine with nothing else installed."""
    from benchmarks.bench_gpu import CARRIED, PARTS

    text = (ROOT / "pyproject.toml").read_text("utf-8")
    needed = {
        re.match(r"[\w.-]+", line)[0] for line in tomllib.loads(text)["project"]["dependencies"]
    }
    given = {"torch", "torchvision", "h5py", "numpy", "pandas", "pyarrow", "pillow", *CARRIED}
    given |= {"jinja2", "markupsafe", "typing_extensions"}  # which torch brings
    lacking = {
        module
        for module, names in packages_distributions().items()
        if (needed - given) & set(map(str.lower, names))
    }
    assert {"dvc", "gensim", "ruamel", "regex", "sklearn", "click"} <= lacking
    program = (
        "import runpy, sys\n"
        f"sys.modules.update(dict.fromkeys({sorted(lacking)}))\n"
        "sys.argv = ['benchmarks', 'gpu']\n"
        "runpy.run_module('benchmarks', run_name='__main__', alter_sys=True)\n"
    )
    table = run_small("-c", program).stdout
    assert table.count("\n| ") >= 2 * len(PARTS)
    assert "left out" not in table
