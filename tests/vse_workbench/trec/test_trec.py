"""Exported runs and qrels, judged by ir_measures, against our metrics, ties included."""

from urllib.parse import unquote

import ir_measures
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from ranking_cases import measure_judged, worlds
from relevance_cases import relevance_from

from pipeline.evaluation.figures import measure, summarise
from pipeline.evaluation.rank_file import EXTENDED
from pipeline.evaluation.score_file import SplitScores
from pipeline.evaluation.truth import DIRECTIONS
from vse_workbench.trec.write import (
    escape_id,
    strictly_falling,
    write_pairs,
    write_positives,
    write_run,
)

SUCCESS = {f"r{depth}": ir_measures.Success @ depth for depth in (1, 5, 10)}


def split_of(scores, image_groups, caption_groups):
    """A split of these groups; ids that white space and percent signs make awkward."""
    images = [f"im {n:02}%.jpg" for n in range(len(image_groups))]
    first = {group: name for name, group in reversed(list(zip(images, image_groups, strict=True)))}
    captions = [f"im {n:02}%.jpg#\t{n}" for n in range(len(caption_groups))]
    owners = [first[group] for group in caption_groups]
    return SplitScores(scores, images, captions, owners, [str(group) for group in image_groups])


def figures_of(folder, measures):
    """What ir_measures, which judges with trec_eval's code, finds in the files themselves."""
    qrels = list(ir_measures.read_trec_qrels(str(folder / "a.qrels")))
    run = list(ir_measures.read_trec_run(str(folder / "a.run")))
    return ir_measures.calc_aggregate(list(measures.values()), qrels, run)


@settings(max_examples=40)
@given(world=worlds())
def test_trec_eval_finds_our_figures_with_ties(world, tmp_path_factory):
    split, folder = split_of(*world), tmp_path_factory.mktemp("trec")
    measured = measure(split.scores, np.asarray(split.image_groups), split.caption_groups)
    for way in DIRECTIONS:
        write_run(folder / "a.run", split, split.scores, way, 0, "m")
        write_pairs(folder / "a.qrels", split, way)
        theirs = figures_of(folder, SUCCESS)
        for name, measure_of_theirs in SUCCESS.items():
            expected = summarise(measured)[way][name]
            assert 100 * theirs[measure_of_theirs] == pytest.approx(expected)


@settings(max_examples=20)
@given(world=worlds(), seed=st.integers(0, 99))
def test_graded_pairs_have_our_figures(world, seed, tmp_path_factory):
    """nDCG by the exported qrels equals ours, in thousandths too."""
    split, random = split_of(*world), np.random.default_rng(seed)
    folder = tmp_path_factory.mktemp("trec")
    scores = random.permutation(split.scores.size).reshape(split.scores.shape).astype(np.float32)
    grades = random.integers(0, 6, split.scores.shape) / random.choice([1, 2])
    assume(grades.any())
    relevance = relevance_from(grades)
    pairs = SUCCESS | {"ndcg": ir_measures.nDCG, "rprecision": ir_measures.Rprec}
    metrics = {metric.name: metric for metric in EXTENDED}
    for way in DIRECTIONS:
        positives = relevance.positives(way)
        write_run(folder / "a.run", split, scores, way, 0, "m")
        write_positives(folder / "a.qrels", split, positives, way)
        theirs, ours = figures_of(folder, pairs), measure_judged(scores, positives, way)
        for name, measure_of_theirs in pairs.items():
            figure = metrics[name].figure(ours.values[name])
            assert figure == pytest.approx(100 * theirs[measure_of_theirs]), name


@given(st.lists(st.sampled_from([-1.0, 0.0, 1e-45, 1e-38, 0.5, 1.0]), min_size=1, max_size=30))
def test_lowered_scores_fall_in_single_precision_and_keep_what_falls(values):
    scores = -np.sort(-np.array(values, np.float32))
    lowered = strictly_falling(scores)
    assert (np.diff(lowered) < 0).all()
    assert (lowered <= scores).all()
    if len(set(values)) == len(values):
        np.testing.assert_array_equal(lowered, scores)


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_ids_come_back(name):
    assert unquote(escape_id(name)) == name
    assert len(escape_id(name).split()) == 1
