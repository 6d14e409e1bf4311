"""Runs and qrels against trec_eval's own code (pytrec_eval) and ir_measures, ties included."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ranking_cases import worlds

from pipeline.evaluation.figures import summarise
from pipeline.evaluation.measure import measure
from pipeline.runtime.errors import WorkbenchError
from pipeline.scores.file import SplitScores
from pipeline.scores.positives import Relevance
from pipeline.scores.ranking import DIRECTIONS
from vse_workbench.trec.ids import escaped, unescaped
from vse_workbench.trec.judge import judged
from vse_workbench.trec.read import read_qrels, read_run
from vse_workbench.trec.write import strictly_falling, write_pairs, write_positives, write_run

MEASURES = {"success.1,5,10", "map", "map_cut.1,2,3,4,5,6,7,8,9,10,11", "ndcg", "Rprec"}


def split_of(scores, image_groups, caption_groups):
    """A split of these groups; ids that white space and percent signs make awkward."""
    images = [f"im {n:02}%.jpg" for n in range(len(image_groups))]
    first = {group: name for name, group in reversed(list(zip(images, image_groups, strict=True)))}
    captions = [f"im {n:02}%.jpg#\t{n}" for n in range(len(caption_groups))]
    owners = [first[group] for group in caption_groups]
    return SplitScores(scores, images, captions, owners, [str(group) for group in image_groups])


def exported(folder, split, scores=None, depth=0):
    """Run and qrels of both directions, read back."""
    for way in DIRECTIONS:
        write_run(folder / f"{way}.run", split, scores or split.scores, way, depth, "m")
        write_pairs(folder / f"{way}.qrels", split, way)
    return {
        way: (read_run(folder / f"{way}.run"), read_qrels(folder / f"{way}.qrels"))
        for way in DIRECTIONS
    }


@settings(max_examples=40)
@given(world=worlds())
def test_evaluators_of_others_find_our_figures_with_ties(world, tmp_path_factory):
    pytrec_eval = pytest.importorskip("pytrec_eval")
    split = split_of(*world)
    measured = measure(split.scores, np.asarray(split.image_groups), split.caption_groups)
    ours = summarise(measured)
    folder = tmp_path_factory.mktemp("trec")
    for way, (run, qrels) in exported(folder, split).items():
        theirs = pytrec_eval.RelevanceEvaluator(qrels, MEASURES).evaluate(run)
        assert len(theirs) == len(split.image_ids if way == "i2t" else split.caption_ids)

        def mean(name, found=theirs):
            return 100 * float(np.mean([figures[name] for figures in found.values()]))

        for depth in (1, 5, 10):
            assert mean(f"success_{depth}") == pytest.approx(ours[way][f"r{depth}"])
        # mAP@R is map_cut at each query's own number of true items
        counts = {query: sum(levels.values()) for query, levels in qrels.items()}
        own = [100 * theirs[query][f"map_cut_{count}"] for query, count in counts.items()]
        assert np.mean(own) == pytest.approx(ours[way]["mapr"])
        found = judged(run, qrels)
        assert found["map"] == pytest.approx(mean("map"))
        assert found["ndcg"] == pytest.approx(mean("ndcg"))
        assert found["rprecision"] == pytest.approx(mean("Rprec"))
        for name in ("r1", "r5", "r10", "mapr"):
            assert found[name] == pytest.approx(ours[way][name])


@settings(max_examples=20)
@given(world=worlds(), seed=st.integers(0, 99))
def test_ir_measures_read_the_files_themselves_and_agree(world, seed, tmp_path_factory):
    """Graded pairs: nDCG by the exported qrels equals ours, in thousandths too."""
    ir_measures = pytest.importorskip("ir_measures")
    split, random = split_of(*world), np.random.default_rng(seed)
    folder = tmp_path_factory.mktemp("trec")
    scores = random.permutation(split.scores.size).reshape(split.scores.shape).astype(np.float32)
    images, captions = np.divmod(np.arange(split.scores.size), split.scores.shape[1])
    grades = random.integers(0, 6, len(images)) / random.choice([1, 2])
    kept = grades > 0
    if not kept.any():
        return
    flags = {way: np.ones(int(kept.sum()), bool) for way in DIRECTIONS}
    relevance = Relevance(
        images[kept], captions[kept], grades[kept], flags, split.scores.shape, "graded"
    )
    for way in DIRECTIONS:
        write_run(folder / "a.run", split, scores, way, 0, "m")
        write_positives(folder / "a.qrels", split, relevance.positives(way), way)
        theirs = ir_measures.calc_aggregate(
            [ir_measures.nDCG, ir_measures.AP, ir_measures.Success @ 5],
            list(ir_measures.read_trec_qrels(str(folder / "a.qrels"))),
            list(ir_measures.read_trec_run(str(folder / "a.run"))),
        )
        ours = judged(read_run(folder / "a.run"), read_qrels(folder / "a.qrels"))
        assert ours["ndcg"] == pytest.approx(100 * theirs[ir_measures.nDCG])
        assert ours["map"] == pytest.approx(100 * theirs[ir_measures.AP])
        assert ours["r5"] == pytest.approx(100 * theirs[ir_measures.Success @ 5])


def test_the_ties_of_trec_eval_go_by_ids_and_ours_against_the_model():
    pytrec_eval = pytest.importorskip("pytrec_eval")
    run = {"q": {"a": 1.0, "b": 1.0}}
    for true, theirs in (("a", 0.5), ("b", 1.0)):  # the larger id first
        found = pytrec_eval.RelevanceEvaluator({"q": {true: 1}}, {"map"}).evaluate(run)
        assert found["q"]["map"] == theirs
        assert judged(run, {"q": {true: 1}})["map"] == 50


def test_a_collapsed_model_is_at_chance_for_others_too(tmp_path):
    """All scores equal: written as they are, ids would have made a perfect model of it."""
    pytrec_eval = pytest.importorskip("pytrec_eval")
    split = split_of(np.zeros((4, 4), np.float32), range(4), range(4))
    run, qrels = exported(tmp_path, split)["t2i"]
    found = pytrec_eval.RelevanceEvaluator(qrels, {"success.1"}).evaluate(run)
    assert {figures["success_1"] for figures in found.values()} == {0.0}


@given(st.lists(st.sampled_from([-1.0, 0.0, 1e-45, 1e-38, 0.5, 1.0]), min_size=1, max_size=30))
def test_lowered_scores_fall_in_single_precision_and_keep_what_falls(values):
    scores = -np.sort(-np.array(values, np.float32))
    lowered = strictly_falling(scores)
    assert (np.diff(lowered) < 0).all()
    assert (lowered <= scores).all()
    if len(set(values)) == len(values):
        np.testing.assert_array_equal(lowered, scores)


def test_a_depth_cuts_and_an_unlisted_item_is_never_found(tmp_path):
    scores = np.array([[3, 2, 1], [3, 2, 1], [1, 2, 3]], np.float32)
    split = split_of(scores, range(3), range(3))
    run, qrels = exported(tmp_path, split, depth=1)["i2t"]
    assert all(len(items) == 1 for items in run.values())
    assert judged(run, qrels)["r10"] == pytest.approx(200 / 3)
    del run[split.image_ids[0]]
    found = judged(run, qrels)
    assert (found["r10"], found["queries"], found["unanswered"]) == (pytest.approx(100 / 3), 3, 1)


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_ids_come_back(name):
    assert unescaped(escaped(name)) == name
    assert len(escaped(name).split()) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"q Q0 d 1 0.5\n", "line 1: 5 columns; expected 6"),
        (b"q Q0 d 1 nan m\n", "line 1: 'nan' is no finite number"),
        (b"q Q0 d 1 1 m\nq Q0 d 2 0 m\n", "line 2: item d for the second time"),
        (b"\xff Q0 d 1 1 m\n", "line 1: not UTF-8"),
        (b"", "no line in it"),
        (b"q" * 20_000, "line 1: 1 columns"),
    ],
)
def test_runs_of_others_are_refused_by_line(tmp_path, text, message):
    (tmp_path / "a.run").write_bytes(text)
    with pytest.raises(WorkbenchError, match=message):
        read_run(tmp_path / "a.run")


def test_qrels_hold_whole_levels_and_fit_the_run(tmp_path):
    (tmp_path / "a").write_text("q 0 d 0.5\n")
    with pytest.raises(WorkbenchError, match="not whole"):
        read_qrels(tmp_path / "a")
    with pytest.raises(WorkbenchError, match="1 of them not in the run"):
        judged({"other": {"d": 1.0}}, {"q": {"d": 1}})
    with pytest.raises(WorkbenchError, match="0 queries with a true item"):
        judged({"q": {"d": 1.0}}, {"q": {"d": 0}})
