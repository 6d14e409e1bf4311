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
    bare = row("wide", 3, 0, figures={"rsum": 12.5})  # other figures stay away
    write_rows(tmp_path / "t.tsv", merged([], [bare, *ROWS]))
    assert read_rows(tmp_path / "t.tsv") == [ROWS[0], ROWS[2], bare, ROWS[1]]


def test_a_run_is_kept_once_whatever_the_commit_and_one_of_other_code_beside_it():
    again = replace(ROWS[0], commit="f" * 12)
    assert merged(ROWS[:1], [again, ROWS[1]]) == ROWS[:2]
    assert len(merged(ROWS[:1], [replace(ROWS[0], code="0" * 12)])) == 2
    with pytest.raises(WorkbenchError, match=r"two runs of narrow on world, seed 0, .* different"):
        merged(ROWS, [row("narrow", 0, 310.5)])


HEAD = "digest\tcorpus\tcode\tcommit\tsetting\tdataset\tseed\trsum\n"
LINE = "d\tc\tx\te\twide\tworld\t1\t3\n"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (b"", "not a table of kept runs: no columns setting"),
        (b"\xff\xfe", "not a table of kept runs"),
        (HEAD + LINE.replace("1", "x"), "line 2: a number cannot be read"),
        (HEAD + LINE.replace("3", "nan"), "line 2: a number cannot be read"),
        (HEAD + LINE + LINE.replace("3", "4"), "two lines of wide on world, seed 1"),
    ],
)
def test_wrong_tables_are_refused(tmp_path, text, told):
    (tmp_path / "t.tsv").write_bytes(text if isinstance(text, bytes) else text.encode())
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
    params = dict(leaves(PARAMS)) | {"seed": 4} | changed
    return Recorded(params, "c" * 12, "d" * 12, {criterion: FIGURES, "protocol": "full"})


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, ["wide"]),
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
    assert all(made.seed == 4 for made in found)
    assert all(made.figures == {"rsum": 321.5, "i2t.r1": 40.0} for made in found)


def test_a_run_of_several_criteria_is_of_the_settings_of_each():
    inference = {"inference": {"criteria": ["sinkhorn", "csls"], "k": 3}}
    asked = {(name, "world"): dict(leaves(PARAMS | inference)) for name in ("wide", "csls")}
    other = run("csls", **{"inference.k": 4})
    assert matching_rows(ledger(), asked, "vse", other, "e") == []
    ran = run("csls", **{"inference.criteria": ["csls", "querybank"], "inference.k": 3})
    better = {key: value + 1 for key, value in ran.metrics["csls"].items() if key == "rsum"}
    metrics = ran.metrics | {"naive": ran.metrics["csls"], "csls": better}
    found = matching_rows(ledger(), asked, "vse", replace(ran, metrics=metrics), "e")
    assert {made.setting: made.figures["rsum"] for made in found} == {"wide": 321.5, "csls": 322.5}
