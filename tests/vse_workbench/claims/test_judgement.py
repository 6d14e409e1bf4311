"""Which runs judge a claim, which are named and never averaged, and their interval."""

from dataclasses import replace
from statistics import fmean

import pytest
from claim_cases import SEEDS, content, kept, ledger, ranks, row, state

from pipeline.runtime.errors import WorkbenchError
from vse_workbench.claims.judgement import judge_claims
from vse_workbench.claims.ledger import Ledger
from vse_workbench.claims.ranks import read_ranks
from vse_workbench.claims.results import check_rows

WIDE = [row("wide", seed, 60.0 + seed, 50.0) for seed in SEEDS]
NARROW = [row("narrow", seed, 50.0, 50.0 - seed % 2) for seed in SEEDS]


def judged(folder, rows, states=None, **claim):
    """The one claim of the ledger, changed by `claim`, as these runs judge it."""
    (made,) = judge_claims(ledger(**claim), kept(folder, rows, states))
    return made


def test_what_was_not_run_is_named(tmp_path):
    made = judged(tmp_path, [*WIDE, *NARROW[:1]])
    assert (made.word, made.found, made.notes) == (
        "not run",
        None,
        ["narrow lacks r1 of seeds 2, 3"],
    )
    assert judged(tmp_path, []).word == "not run"


@pytest.mark.parametrize(
    ("needs", "notes"),
    [
        ({"train_images": 60, "words": "few"}, []),
        ({"train_images": 61}, ["needs train_images 61, world has 60"]),
        ({"words": "many"}, ["needs words many, world has few"]),
    ],
)
def test_an_unmet_premise_decides_before_any_run(tmp_path, needs, notes):
    made = judged(tmp_path, [*WIDE, *NARROW], needs=needs)
    assert made.notes == notes
    assert (made.word == "premise not met") == bool(notes)


def test_the_newest_code_with_all_seeds_of_both_sides_judges(tmp_path):
    """Runs of other code, settings or corpus stay in the table and are paired with no others."""
    newer = [replace(one, digest="n" * 12, figures=one.figures | {"i2t.r1": 9.0}) for one in WIDE]
    states = [state(*WIDE, *NARROW), state(*newer, *NARROW, commit="f" * 12)]
    made = judged(tmp_path, [*WIDE, *newer, *NARROW], states)
    # a level is the mean over the seeds of i2t.r1 + t2i.r1: 9 + 50 of the newer code
    assert made.levels == (59, fmean([99, 100, 99]))
    other = [replace(one, digest="o" * 12) for one in NARROW]
    states[1] = state(*newer[:2], *other, commit="f" * 12)
    made = judged(tmp_path, [*WIDE, *newer[:2], *NARROW, *other], states)
    # the newest lacks a seed: the older code judges, 60 + seed and 50
    assert made.levels == (112, fmean([99, 100, 99]))
    older = f"judged by code and settings of commit {'e' * 12}: "
    assert made.notes == [f"{older}of the newest wide lacks r1 of seeds 3"]
    apart = [replace(one, corpus="o" * 12) for one in NARROW]
    assert judged(tmp_path, [*WIDE, *apart]).notes == ["the sides have no corpus in common"]
    bare = [replace(one, figures={"i2t.r1": 1.0}) for one in NARROW]
    assert judged(tmp_path, [*WIDE, *bare]).notes == ["narrow lacks r1 of seeds 1, 2, 3"]


def test_a_run_that_its_cap_has_ended_decides_nothing(tmp_path):
    late = replace(WIDE[0], best_epoch=28)
    made = judged(tmp_path, [late, WIDE[1], replace(WIDE[2], best_epoch=28), *NARROW])
    assert (made.word, made.p) == ("not converged", None)
    assert made.notes == ["wide: best epoch 28 of at most 30, seeds 1, 3"]
    assert judged(tmp_path, [replace(late, best_epoch=27), *WIDE[1:], *NARROW]).word == "holds"


def test_a_collapse_is_a_result_that_can_decide(tmp_path):
    lost = [
        replace(
            one,
            outcome="collapsed",
            figures=one.figures | {"i2t.r1": 1.0, "t2i.r1": 1.0},
            best_epoch=30,
        )
        for one in NARROW
    ]
    found = kept(tmp_path, [*WIDE, *lost])
    for one in lost:
        (found.ranks / one.ranks).unlink()
    (made,) = judge_claims(ledger(), found)
    assert (made.word, made.has_share, made.notes[0]) == (
        "holds",
        False,
        "narrow: collapsed, seeds 1, 2, 3",
    )
    assert not made.is_seeds_only
    both = [replace(one, setting="wide", digest="wide") for one in lost]
    assert judged(tmp_path, [*both, *lost]).word == "collapsed"
    (found.ranks / WIDE[0].ranks).unlink()
    with pytest.raises(FileNotFoundError, match=r"wide\.world\.1\..*npz"):
        judge_claims(ledger(), found)


def test_added_seeds_and_another_search_are_refused_by_name():
    with pytest.raises(WorkbenchError, match=r"wide on world, seed 4: .* seeds 1, 2, 3"):
        check_rows(ledger(), [*WIDE, *NARROW, row("wide", 4)])
    former = Ledger.model_validate(content() | {"former_seeds": [1, 4]})
    check_rows(former, [*WIDE, *NARROW, row("wide", 4, factor=9.0)])
    search = [
        row("searched", 0, factor=f, val_rsum=v) for f, v in ((0.5, 9.0), (1.0, 9.0), (3.0, 9.0))
    ]
    check_rows(ledger(), [*search, row("searched", 1)])  # of equal ones the nearest to 1
    with pytest.raises(WorkbenchError, match="factor 3; its search has chosen factor 1"):
        check_rows(ledger(), [*search, row("searched", 1, factor=3.0)])
    with pytest.raises(
        WorkbenchError, match="seed 1: run with factor 1; its search is not complete"
    ):
        check_rows(ledger(), [*search[:2], row("searched", 1)])


def test_ranks_come_back_and_other_files_are_refused(tmp_path):
    found = kept(tmp_path, WIDE[:1])
    path = found.ranks / WIDE[0].ranks
    assert all((read_ranks(path).ranks[way] == own).all() for way, own in ranks(1).ranks.items())
    assert path.stat().st_size < 1500
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(WorkbenchError, match="not the ranks of a kept run"):
        read_ranks(path)


def test_a_withdrawn_claim_says_why_and_its_runs_count_not(tmp_path):
    made = judged(tmp_path, [*WIDE, *NARROW], withdrawn="It measured the width.")
    assert (made.label, made.notes, made.found) == ("withdrawn", ["It measured the width."], None)


def test_a_premise_of_settings_holds_for_those_that_say_what_they_have(tmp_path):
    values = content(needs={"power": 4})
    found = kept(tmp_path, [*WIDE, *NARROW])

    def word(**has):
        for name, own in has.items():
            values["settings"][name]["has"] = own
        (made,) = judge_claims(Ledger.model_validate(values), found)
        return made.word, made.notes

    assert word() == ("premise not met", ["needs power 4, world has none"])
    assert word(wide={"power": 1}) == ("premise not met", ["needs power 4, wide has 1"])
    assert word(wide={"power": 4})[0] == "holds"


@pytest.mark.parametrize(
    ("paper", "word"), [(None, "not comparable"), (30.0, "not comparable"), (9.0, "holds")]
)
def test_a_side_that_did_not_train_is_not_compared_unless_the_paper_says_so(tmp_path, paper, word):
    """Below half of the rsum of the other setting of its model."""
    weak = [replace(one, figures=one.figures | {"i2t.r1": 5.0, "rsum": 40.0}) for one in NARROW]
    strong = [replace(one, figures=one.figures | {"rsum": 81.0}) for one in WIDE]
    published = paper and {"on": "X", "first": [30.0, 20.0], "second": [paper, 5.0]}
    made = judged(tmp_path, [*strong, *weak], published=published)
    assert made.word == word
    said = "narrow: rsum 40.0, below half of wide's 81.0"
    assert (said in made.notes) == (word == "not comparable")
    nearer = [replace(one, figures=one.figures | {"rsum": 41.0}) for one in weak]
    assert judged(tmp_path, [*strong, *nearer], published=published).word == "holds"


def test_a_losing_side_at_the_edge_of_its_search_decides_nothing(tmp_path):
    values = content(first="wide", second="searched")
    values["search"]["keys"]["vse"] = ["vse.lr"]

    def search(setting, best):
        factors = (0.5, 1.0, 3.0)
        return [row(setting, 0, factor=f, val_rsum=float(f == best)) for f in factors]

    def word(wide, searched):
        rows = [*search("wide", wide), *search("searched", searched)]
        rows += [replace(one, factor=wide) for one in WIDE]
        rows += [row("searched", seed, 50.0, 50.0, factor=searched) for seed in SEEDS]
        (made,) = judge_claims(Ledger.model_validate(values), kept(tmp_path, rows))
        return made.word

    assert word(1.0, 1.0) == word(3.0, 1.0) == "holds"
    assert word(1.0, 3.0) == word(1.0, 0.5) == "not converged"


def test_a_word_of_drawn_scenes_says_so_where_runs_led_to_it(tmp_path):
    values = content()
    values["datasets"]["world"]["drawn"] = True
    found = kept(tmp_path, [*WIDE, *NARROW])
    (made,) = judge_claims(Ledger.model_validate(values), found)
    assert (made.word, made.label) == ("holds", "holds on drawn scenes")
    (made,) = judge_claims(Ledger.model_validate(values), kept(tmp_path, WIDE))
    assert made.label == "not run"
