"""Which runs are paired, and which are named and never averaged."""

import pytest
from claim_cases import content, ledger, row

from vse_workbench.claims.judgement import judge_claim
from vse_workbench.claims.ledger import Ledger
from vse_workbench.claims.page import page, word_of
from vse_workbench.claims.verdict import spread


def judged(rows, **claim):
    claims = ledger(**claim)
    return judge_claim(claims, "wider", claims.claims["wider"], "world", rows)


RUNS = [
    *(row("wide", seed, rsum) for seed, rsum in ((0, 330.0), (1, 351.0), (2, 342.0))),
    *(row("narrow", seed, rsum) for seed, rsum in ((2, 330.0), (0, 320.0), (1, 340.0))),
]


def test_a_measure_adds_and_takes_away():
    figures = {"t2i.r1": 30.0, "i2t.r1": 10.0}
    rows = [
        row("wide", 0, 0, figures=figures),
        row("narrow", 0, 0, figures=figures | {"i2t.r1": 4.0}),
    ]
    published = {"on": "x", "first": [5.0, 1.0], "second": [3.0, 2.0]}
    made = judged(rows, measure="less", published=published)
    assert made.found.mean == (30 - 10) - (30 - 4)
    assert made.published == (5 - 1) - (3 - 2)


@pytest.mark.parametrize(
    ("rows", "lacks"),
    [
        ([], "not run: wide, narrow"),
        (RUNS[:3], "not run: narrow"),
        ([row("wide", 0, 1), row("narrow", 1, 1)], "no seed in common: wide [0], narrow [1]"),
        ([row("wide", 0, 1, dataset="world"), row("cca", 0, 1)], "not run: narrow"),
    ],
)
def test_what_was_not_run_is_named(rows, lacks):
    made = judged(rows)
    assert (made.lacks, made.found, made.verdict) == (lacks, None, None)
    assert word_of(made) == "not run"


@pytest.mark.parametrize("key", ["corpus", "code"])
def test_runs_of_another_corpus_or_code_are_named_never_averaged(key):
    made = judged([*RUNS[:5], row("narrow", 1, 340.0, **{key: "f" * 12})])
    assert made.found is None
    assert word_of(made) == "refused"
    (problem,) = made.problems
    assert problem.startswith(f"runs of different {key}: ")
    assert "ffffffffffff (narrow seeds 1)" in problem
    assert "wide seeds 0, 1, 2, narrow seeds 0, 2" in problem


def test_commits_may_differ_where_the_code_is_the_same_and_not_between_models():
    made = judged([*RUNS[:5], row("narrow", 1, 340.0, commit="f" * 12)])
    assert made.found.n == 3
    alike = [row("wide", 0, 330.0), row("cca", 0, 300.0, code="0" * 12)]
    assert judged(alike, second="cca").found.mean == 30.0
    apart = [alike[0], row("cca", 0, 300.0, code="0" * 12, commit="f" * 12)]
    assert judged(apart, second="cca").problems[0].startswith("runs of different commit: ")


def test_runs_of_what_claims_yaml_said_before_are_named_and_left_out():
    made = judged([*RUNS, row("wide", 3, 500.0, digest="0" * 12), row("narrow", 3, 1.0)])
    assert made.found.n == 3
    assert made.problems[0] == "wide: seeds 3 run with what claims.yaml said before"


def test_a_figure_that_was_not_measured_is_named():
    made = judged([row("wide", 0, 0, figures={"i2t.r1": 3.0}), row("narrow", 0, 1)])
    assert made.problems == ["no figures of measure rsum: wide seed 0"]
    assert made.found is None


def test_runs_are_paired_by_seed_and_the_page_has_what_was_left_out():
    made = judged([*RUNS, row("wide", 3, 500.0)])
    assert made.seeds == [0, 1, 2]
    assert made.found == spread([10.0, 11.0, 12.0])
    text = page(ledger(), [made])
    (line,) = [line for line in text.splitlines() if "`wider`, rsum" in line]
    assert [cell.strip() for cell in line.strip("|").split("|")] == [
        "**holds**, as large as published: +11.0 (+8.5 to +13.5), n 3",
        "Wide is ahead. `wider`, rsum; table 1",
        "+10.0, Flickr30k",
    ]
    assert "1 claims, each counted once for every dataset: 1 holds." in text
    assert "- `wider` on world: seeds 3 were run of one setting alone" in text


def test_a_claim_has_one_row_and_a_column_for_each_dataset():
    content_ = content()
    content_["datasets"]["other"] = {"title": "elsewhere"}
    both = Ledger.model_validate(content_)
    rows = [row(r.setting, r.seed, r.figures["rsum"], ledger_=both) for r in RUNS]
    made = [judge_claim(both, "wider", both.claims["wider"], name, rows) for name in both.datasets]
    text = page(both, made)
    assert "| the world | elsewhere | claim | published |" in text
    (line,) = [line for line in text.splitlines() if "`wider`" in line]
    assert line.split(" | ")[1] == "not run"


def test_the_page_tells_how_many_seeds_would_decide():
    wide = [row("wide", 0, 1.0), row("wide", 1, 5.0)]
    made = judged([*wide, row("narrow", 0, 0.0), row("narrow", 1, 0.0)])
    # mean 3, deviation 2.83: 2.97 to each side with six
    assert "smaller than published" not in page(ledger(), [made])
    assert "| **undecided**, 6 seeds would decide: +3.0 (" in page(ledger(), [made])
    one = judged([RUNS[0], RUNS[4]])
    assert "| **undecided**, one seed has no interval: +10.0, n 1 |" in page(ledger(), [one])
