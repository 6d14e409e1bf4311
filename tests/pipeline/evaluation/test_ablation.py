"""Tables of many runs: which rows count, and means and deviations against plain arithmetic."""

import io
import statistics

import pandas as pd
import pytest
from commands import run_command

from pipeline.evaluation.ablation import FIGURES, read_experiments, tabulate
from pipeline.evaluation.comparison import aligned
from pipeline.runtime.errors import WorkbenchError
from vse_workbench.commands.tabulate import main

HEAD = ["Experiment", "rev", "typ", "Created", "parent", "State", "Executor"]
COLUMNS = [*HEAD, *(f"metrics/vse.json:naive.{name}" for name in FIGURES), "seed", "vse.dim"]


def line(name, seed, dim, rsum, kind="branch_commit", state="Success"):
    figures = [rsum / 10 + i for i in range(len(FIGURES) - 1)]
    values = [name, "abc", kind, "2026-01-01", "", state, "", *figures, rsum, seed, dim]
    return ",".join(map(str, values))


def csv(*lines):
    return "\n".join([",".join(COLUMNS), *lines]) + "\n"


BASE = line("", 0, 8, 1.0, kind="baseline", state="")
RUNS = [
    line("a", 0, 8, 300.0, kind="branch_base"),
    line("b", 1, 8, 320.0),
    line("c", 0, 16, 310.0),
    line("d", 1, 16, 334.0),
    line("e", 2, 16, 328.0),
]


def spread(figures):
    return f"{statistics.mean(figures):.1f} ± {statistics.stdev(figures):.1f}"


def test_mean_and_deviation_of_each_setting():
    table = tabulate(read_experiments(csv(BASE, *RUNS)), "vse", ["naive"], ["vse.dim"])
    done = run_command(main, "--model=vse", "--by=vse.dim", stdin=csv(BASE, *RUNS))
    assert done.stdout.splitlines() == aligned(table)
    head, *rows = table
    assert head[:3] == ["dim", "runs", "i2t R@1"]
    assert head[-2:] == ["rsum", "rsum - first row"]
    assert head.count("mAP@R") == 2
    assert [row[:2] for row in rows] == [["16", "3"], ["8", "2"]]  # sorted as text
    for row, rsums in zip(rows, ([310, 334, 328], [300, 320]), strict=True):
        for cell, figures in (
            (row[2], [rsum / 10 for rsum in rsums]),
            (row[-3], [rsum / 10 + len(FIGURES) - 2 for rsum in rsums]),
            (row[-2], rsums),
        ):
            assert cell == spread(figures)
    assert rows[0][-1] == "0.0 ± 0.0"
    assert rows[1][-1] == spread([300 - 310, 320 - 334])  # of seeds 0 and 1, which both have


def test_one_run_has_no_deviation():
    _, row = tabulate(read_experiments(csv(BASE, RUNS[0])), "vse", ["naive"], ["vse.dim"])
    assert row[1] == "1"
    assert row[-2:] == ["300.0", "0.0"]


def test_unfinished_and_failed_experiments_are_left_out():
    states = [line("f", 3, 8, 0.0, state=state) for state in ("Failed", "Running", "Queued")]
    assert read_experiments(csv(BASE, RUNS[0], *states))["Experiment"].tolist() == ["a"]
    # DVC leaves the column out where no experiment has a state
    table = pd.read_csv(io.StringIO(csv(BASE, *RUNS)), dtype=str, keep_default_na=False)
    found = read_experiments(table.drop(columns="State").to_csv(index=False))
    assert found["Experiment"].tolist() == list("abcde")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not a list of experiments"),
        ('a,b\n"1,2\n1,2,3\n', "not a list of experiments"),
        (csv(BASE), "none of 1 rows is a finished experiment"),
    ],
)
def test_other_text_is_refused(text, words):
    with pytest.raises(WorkbenchError, match=words):
        read_experiments(text)


@pytest.mark.parametrize(
    ("lines", "model", "by", "words"),
    [
        (RUNS, "vsr", ["vse.dim"], "no column vsr.json:naive.i2t.r1"),
        (RUNS, "vse", ["vse.width"], "no column vse.width"),
        ([*RUNS, line("g", 0, 8, 1.0)], "vse", ["vse.dim"], "a, g have the same seed"),
        ([line("h", 0, 8, 1.0).replace("1.1,", ",")], "vse", ["vse.dim"], "without figures .*: h"),
    ],
)
def test_errors_name_what_is_wrong(lines, model, by, words):
    with pytest.raises(WorkbenchError, match=words):
        tabulate(read_experiments(csv(*lines)), model, ["naive"], by)


def test_of_several_criteria_every_setting_has_a_row_for_each():
    columns = [name.replace("naive", "csls") for name in COLUMNS if "naive" in name]
    rows = [[*run.split(","), *[str(float(x) + 5) for x in run.split(",")[7:-2]]] for run in RUNS]
    text = "\n".join(",".join(row) for row in [[*COLUMNS, *columns], *rows]) + "\n"
    runs = read_experiments(text)
    head, *both = tabulate(runs, "vse", ["naive", "csls"], ["vse.dim"])
    assert head[:4] == ["dim", "criterion", "runs", "i2t R@1"]
    settings = [
        (dim, name, n) for dim, n in (("16", "3"), ("8", "2")) for name in ("naive", "csls")
    ]
    assert [tuple(row[:3]) for row in both] == settings
    assert both[1][-1] == "5.0 ± 0.0"  # the first row is naive
    for number, name in enumerate(("naive", "csls")):
        _, *alone = tabulate(runs, "vse", [name], ["vse.dim"])
        assert [row[2:-1] for row in alone] == [row[3:-1] for row in both[number::2]]
