"""The kept table: what comes out as it went in, which runs are of which setting, wrong tables."""

from dataclasses import replace

import pytest
from claim_cases import ledger, row

from pipeline.runtime.errors import WorkbenchError
from vse_workbench.claims.ledger import leaves
from vse_workbench.claims.recorded import Recorded
from vse_workbench.claims.results import matching_rows, merged, read_rows, write_rows

ROWS = [row("narrow", 0, 310.1234), row("wide", 10, 320.0), row("wide", 2, 330.0)]
FIGURES = {"rsum": 321.5, "i2t": {"r1": 40.0}}


def test_rows_come_back_sorted_by_setting_and_seed(tmp_path):
    write_rows(tmp_path / "t.tsv", merged([], ROWS))
    assert read_rows(tmp_path / "t.tsv") == [ROWS[0], ROWS[2], ROWS[1]]


def test_a_figure_that_a_run_did_not_have_stays_away(tmp_path):
    bare = row("wide", 0, 0, figures={"rsum": 12.5})
    write_rows(tmp_path / "t.tsv", [bare])
    assert read_rows(tmp_path / "t.tsv") == [bare]


def test_a_run_is_kept_once_whatever_the_commit():
    again = replace(ROWS[0], commit="f" * 12)
    assert merged(ROWS[:1], [again, ROWS[1]]) == ROWS[:2]


def test_a_run_of_other_code_is_another_run():
    assert len(merged(ROWS[:1], [replace(ROWS[0], code="0" * 12)])) == 2


def test_two_runs_that_should_be_alike_and_are_not_are_named():
    with pytest.raises(WorkbenchError, match=r"two runs of narrow on world, seed 0, .* different"):
        merged(ROWS, [row("narrow", 0, 310.5)])


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "not a table of kept runs: no columns setting"),
        ("a\tb\n1\t2\n", "not a table of kept runs"),
        (b"\xff\xfe", "not a table of kept runs"),
        ("HEAD\twide\tworld\tx\t{}\n", "line 2: a number cannot be read"),
        ("HEAD\twide\tworld\t1\tnan\n", "line 2: a number cannot be read"),
        ("HEAD\twide\tworld\t1\tmany\n", "line 2: a number cannot be read"),
        ("HEAD\twide\tworld\t1\t3\nwide\tworld\t1\t4\n", "two lines of wide on world, seed 1"),
    ],
)
def test_wrong_tables_are_refused(tmp_path, text, told):
    head = "digest\tcorpus\tcode\tcommit\tsetting\tdataset\tseed\trsum\n"
    if isinstance(text, str):
        lines = text.replace("HEAD\t", "HEAD\n").split("\n")
        same = [f"d\tc\tx\te\t{line}" if line.startswith("wide") else line for line in lines]
        text = "\n".join(same).replace("HEAD\n", head).encode()
    (tmp_path / "t.tsv").write_bytes(text)
    with pytest.raises(WorkbenchError, match=told):
        read_rows(tmp_path / "t.tsv")


PARAMS = {
    "seed": 0,
    "runtime": {"threads": 2},
    "vse": {"dim": 16, "layers": [1, 2]},
    "inference": {"criteria": ["naive"], "k": 10},
    "evaluation": {"folds": 1, "bootstrap": 1000},
}


def wanted(**changed):
    return {
        (name, "world"): dict(leaves(PARAMS | {"vse": PARAMS["vse"] | {"dim": dim}} | changed))
        for name, dim in (("wide", 16), ("narrow", 8))
    }


def run(criterion="naive", **changed):
    """A run with vse.dim = 16 and seed 4."""
    params = dict(leaves(PARAMS)) | {"seed": 4} | changed
    return Recorded(params, "c" * 12, "d" * 12, {criterion: FIGURES, "protocol": "full"})


def names(found):
    return [(made.setting, made.seed) for made in found]


def test_a_run_is_of_the_setting_whose_every_value_it_was_made_with():
    (made,) = matching_rows(ledger(), wanted(), "vse", run(), "e" * 12)
    assert names([made]) == [("wide", 4)]
    assert made.figures == {"rsum": 321.5, "i2t.r1": 40.0}


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"vse.dim": 8}, ["narrow"]),
        ({"vse.dim": 9}, []),
        ({"vse.layers": [1, 3]}, []),
        ({"vse.unknown": 1}, []),
        ({"evaluation.folds": 5}, []),
        ({"evaluation.bootstrap": 0}, ["wide"]),
        ({"runtime.threads": 8}, ["wide"]),
        # whatever else was computed, the naive figures are the same
        ({"inference.criteria": ["csls"], "inference.k": 5}, ["wide"]),
    ],
)
def test_other_values_are_another_setting(changed, expected):
    found = matching_rows(ledger(), wanted(), "vse", run(**changed), "e" * 12)
    assert [made.setting for made in found] == expected


def test_a_criterion_is_part_of_the_setting():
    asked = {
        ("csls", "world"): dict(leaves(PARAMS | {"inference": {"criteria": ["csls"], "k": 3}}))
    }
    claims = ledger()
    assert matching_rows(claims, asked, "vse", run("csls"), "e") == []
    ran = run("csls", **{"inference.criteria": ["csls"], "inference.k": 3})
    assert names(matching_rows(claims, asked, "vse", ran, "e")) == [("csls", 4)]


def test_a_run_of_several_criteria_is_of_the_settings_of_each():
    inference = {"inference": {"criteria": ["sinkhorn", "csls"], "k": 3}}
    asked = {(name, "world"): dict(leaves(PARAMS | inference)) for name in ("wide", "csls")}
    ran = run("csls", **{"inference.criteria": ["csls", "querybank"], "inference.k": 3})
    better = {key: value + 1 for key, value in ran.metrics["csls"].items() if key == "rsum"}
    metrics = ran.metrics | {"naive": ran.metrics["csls"], "csls": better}
    found = matching_rows(ledger(), asked, "vse", replace(ran, metrics=metrics), "e")
    assert {made.setting: made.figures["rsum"] for made in found} == {"wide": 321.5, "csls": 322.5}
