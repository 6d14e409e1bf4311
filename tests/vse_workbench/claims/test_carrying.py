"""Rows of older code stand beside new ones where runs made again give the same ranks."""

from dataclasses import replace

import numpy as np
import pytest
from claim_cases import SEEDS, content, kept, ledger, planned, ranks, row, state

from vse_workbench.claims.carrying import equal_codes, find_reruns
from vse_workbench.claims.judgement import judge_claims
from vse_workbench.claims.ledger import Ledger
from vse_workbench.claims.queue import carrying_jobs, lacking_jobs
from vse_workbench.claims.ranks import KeptRanks, write_ranks
from vse_workbench.claims.results import check_rows

OLD, NEW = "d" * 12, "n" * 12
WIDE = [row("wide", seed, 60.0 + seed, minutes=10.0 - seed) for seed in SEEDS]
NARROW = [row("narrow", seed, 50.0, 50.0 - seed % 2) for seed in SEEDS]


def made_again(*rows):
    return [replace(one, code=NEW) for one in rows]


def found(folder, rows):
    return kept(folder, rows, [state(*rows[:1]), state(*made_again(*WIDE, *NARROW))])


def test_two_runs_with_the_same_ranks_carry_all_rows_of_their_code(tmp_path):
    """The newest code has the other side's runs, and one or two of this side's."""
    newer = made_again(*NARROW)
    one, two = ([*WIDE, *newer, *made_again(*WIDE[:count])] for count in (1, 2))
    for rows, word in ((one, "not run"), (two, "holds")):
        here = found(tmp_path, rows)
        (made,) = judge_claims(ledger(), here)
        assert made.word == word
        assert equal_codes(find_reruns(here)) == ({OLD: NEW} if word == "holds" else {})
    assert made.levels[0] == np.mean([111, 112, 113])
    assert f"carried: rows of code {OLD}" in made.notes


def test_one_query_with_another_rank_carries_nothing(tmp_path):
    rows = [*WIDE, *made_again(*NARROW), *made_again(*WIDE)]
    here = found(tmp_path, rows)
    other = ranks(rows[-1].seed)
    other.ranks["t2i"][3] += 1
    write_ranks(here.ranks / rows[-1].ranks, KeptRanks(other.ranks, other.images))
    assert [run.is_same for run in find_reruns(here)] == [True, True, False]
    assert equal_codes(find_reruns(here)) == {}
    (here.ranks / rows[-1].ranks).unlink()
    assert not find_reruns(here)[-1].is_same


def test_a_chain_of_codes_leads_to_the_newest(tmp_path):
    newest = [replace(one, code="z" * 12) for one in WIDE[:2]]
    here = found(tmp_path, [*WIDE, *made_again(*WIDE[:2]), *newest])
    assert equal_codes(find_reruns(here)) == {OLD: "z" * 12, NEW: "z" * 12}


def test_code_that_was_taken_back_is_the_newest_again(tmp_path):
    narrow = [replace(one, code=NEW) for one in NARROW[:2]]
    here = found(tmp_path, [*WIDE[:2], *made_again(*WIDE[:2]), *narrow, *NARROW[:2]])
    assert equal_codes(find_reruns(here)) == {NEW: OLD}


def names(jobs):
    return [(job.plan.setting, job.seed) for job in jobs]


def test_the_shortest_runs_are_made_again_and_then_nothing_lacks():
    claims = ledger()
    plans = [replace_code(planned("wide", "vse")), replace_code(planned("narrow", "vse"))]
    rows = [*WIDE, *NARROW]
    assert len(lacking_jobs(claims, plans, rows)) == 6
    assert names(carrying_jobs(claims, plans, rows)) == [("narrow", 1), ("narrow", 2)]
    rows += made_again(NARROW[0])
    assert names(carrying_jobs(claims, plans, rows)) == [("narrow", 2)]
    rows += made_again(NARROW[1])
    assert carrying_jobs(claims, plans, rows) == []
    codes = {OLD: NEW}
    assert (
        carrying_jobs(claims, plans, rows, codes) == lacking_jobs(claims, plans, rows, codes) == []
    )


def replace_code(plan):
    return replace(plan, code=NEW)


def test_a_run_made_again_has_the_search_of_the_first_one():
    claims = Ledger.model_validate(content())
    search = [row("searched", 0, factor=factor, val_rsum=9.0) for factor in (0.5, 1.0, 3.0)]
    first = row("searched", 1)
    check_rows(claims, [*search, first, *made_again(first)])
    with pytest.raises(Exception, match="search is not complete"):
        check_rows(claims, [*search, *made_again(first)])
