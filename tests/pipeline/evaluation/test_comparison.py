"""The table of models: what is in it, and what is refused."""

import json

import pytest
import report_world
from commands import refusal
from ranking_cases import a_split
from report_world import cells

from pipeline.evaluation.comparison import (
    aligned,
    best_of,
    described,
    groups_of,
    notes,
    read_metrics,
    read_results,
    rows_of,
    tables,
)
from pipeline.evaluation.protocol import evaluate
from pipeline.evaluation.rank_file import COLUMNS, write_ranks
from pipeline.runtime.errors import WorkbenchError, counted
from pipeline.runtime.files import write_json


def put_model(folder, name, signal, images=20, prefix="", folds=1, resamples=50, naive=(), **said):
    """naive, said: changes of the metrics that both files are of."""
    split = a_split(images, (3,), signal, prefix=prefix)
    evaluation = evaluate(split, folds, resamples, 0.95, seed=0)
    metrics, ranks = folder / f"{name}.json", folder / f"{name}.h5"
    content = evaluation.summary() | said
    content["naive"] |= dict(naive)
    write_json(metrics, content)
    write_ranks(ranks, split, evaluation, 0.95, content)
    return metrics, ranks


def read(*models):
    return read_results([metrics for metrics, _ in models], [ranks for _, ranks in models])


def test_the_tables_have_recalls_rsum_and_its_interval_and_chance(tmp_path):
    results = read(put_model(tmp_path, "weak", 0.2), put_model(tmp_path, "strong", 2.5))
    lines = described(results, "shapes, ranking loss max_margin")
    assert "Dataset shapes, ranking loss max_margin" in lines[0]
    assert "20 images, 60 captions, protocol full" in lines[0]
    head, _, strong, weak, chance = table = lines[-5:]
    ways = ["i2t R@1", "R@5", "R@10", "t2i R@1", "R@5", "R@10"]
    assert cells(head) == ["model", *ways, "rsum", "95 %"]
    figures = json.loads((tmp_path / "strong.json").read_text())["naive"]
    recalls = [figures[way][name] for way in ("i2t", "t2i") for name in ("r1", "r5", "r10")]
    low, high = results[1].record.intervals["naive"]["rsum"]
    values = [f"{value:.1f}" for value in (*recalls, figures["rsum"])]
    assert cells(strong) == ["strong", *values, f"{low:.1f} to {high:.1f}"]
    assert low < figures["rsum"] < high
    assert cells(weak)[0] == "weak"
    assert dict(zip(cells(head), cells(chance), strict=True))["t2i R@1"] == "5.0"
    bars = [[i for i, sign in enumerate(line) if sign == "|"] for line in table]
    assert all(places == bars[0] for places in bars)
    assert aligned([["a", "b"], ["long", "1"]])[1] == "|------|----:|"


def test_models_that_cannot_be_compared_are_refused(tmp_path):
    first = put_model(tmp_path, "first", 1.0)
    with pytest.raises(WorkbenchError, match="first and other were evaluated on different images"):
        read(first, put_model(tmp_path, "other", 1.0, prefix="x"))
    with pytest.raises(WorkbenchError, match="differ in protocol: full and 10_x2"):
        read(first, put_model(tmp_path, "folded", 1.0, folds=2))


def test_metrics_and_ranks_come_in_pairs(tmp_path):
    (metrics, ranks), (_, other) = (put_model(tmp_path, name, 1.0) for name in ("a", "b"))
    assert "a.json: no rank file named a.h5" in refusal(read_results, [metrics], [other])
    assert "without a metrics file: b" in refusal(read_results, [metrics], [ranks, other])


def test_metrics_and_ranks_of_two_evaluations_are_refused(tmp_path):
    metrics, _ = put_model(tmp_path, "vse", 1.0)
    _, ranks = put_model(tmp_path / "other", "vse", 1.1)
    with pytest.raises(WorkbenchError, match=r"vse\.json: was not written with .*other/vse\.h5"):
        read_results([metrics], [ranks])
    renamed = ranks.rename(tmp_path / "other/scan.h5")
    with pytest.raises(WorkbenchError, match=r"scan\.h5: written as 'vse', not as 'scan'"):
        read_results([metrics.rename(tmp_path / "scan.json")], [renamed])


def test_other_files_are_not_metrics(tmp_path):
    path = tmp_path / "vse.json"
    for text in (b"[]", b"\xff\xfe", b"[" * 100_000):
        path.write_bytes(text)
        with pytest.raises(WorkbenchError, match=r"vse\.json.*: not (a metrics|valid JSON|UTF-8)"):
            read_metrics(path)
    for other, key in (
        ({"naive": {"i2t": {}}}, r"naive\.i2t\.r1"),
        ({"csls": {}}, r"csls\.i2t\.r1"),
    ):
        put_model(tmp_path, "vse", 1.0, **other)
        with pytest.raises(WorkbenchError, match=rf"not a metrics file: {key} is missing"):
            read_metrics(path)


def test_rows_fall_by_rsum_and_transductive_ones_stand_apart(tmp_path):
    for name, signal in (("weak", 0.1), ("worse", 0.0), ("strong", 0.6)):
        made = report_world.made_scores(signal)
        report_world.put_model(tmp_path, name, made, csls=name != "worse")
    results = report_world.results_of(tmp_path, "weak", "worse", "strong")
    plain, others = groups_of(results)
    assert [row.label for row in plain] == ["strong", "weak", "worse"]
    assert [row.label for row in others] == ["strong + csls", "weak + csls"]
    for rows in (plain, others):
        figures = [row.figures["rsum"] for row in rows]
        assert figures == sorted(figures, reverse=True)
        best = best_of(rows)
        for place, column in enumerate(COLUMNS):
            values = [column.of(row.figures) for row in rows]
            top = max(values) if column.better == "larger" else min(values)
            assert [row[place] for row in best] == [round(v - top, 1) == 0 for v in values]
    lines = tables(results)
    middle = lines.index("")
    assert [cells(line)[0] for line in lines[2:middle]] == ["strong", "weak", "worse", "chance"]
    assert lines[middle + 1].startswith("Transductive, ")
    assert [cells(line)[0] for line in lines[-2:]] == ["strong + csls", "weak + csls"]
    assert best_of(plain[:1]) == [[False] * len(COLUMNS)]


def test_a_reranked_row_says_what_the_second_model_scored(tmp_path):
    cost = {"first": "vse", "second": "scan", "top": 10, "i2t": 12.5, "t2i": 3.25}
    (line,) = notes(read(put_model(tmp_path, "both", 1.0, rerank=cost)))
    assert line == (
        "both: scan orders the best 10 of vse and scores 12.5 % (image queries) and 3.2 % (caption "
        "queries) of all pairs."
    )


def test_a_shortlist_is_of_all_test_images_where_the_first_alone_are_evaluated(tmp_path):
    held = {"in_shortlist": {"i2t": 98.04, "t2i": 95.1}}
    model = put_model(tmp_path, "dp_rnn", 1.0, naive=held, shortlist=25, test_images=5000)
    results = read(put_model(tmp_path, "vse", 1.0, shortlist=20), model)
    assert "Test split: the first 20 of 5,000 images, 60 captions" in described(results[1:], "s")[0]
    (line,) = [line for line in described(results, "s") if "in full" in line]  # vse: all 20 images
    assert line.startswith("dp_rnn: 25 of 5,000 images per caption were scored in full, all others")
    assert line.endswith("for 98.0 % of the images and 95.1 % of the captions.")


def test_rows_that_may_be_chance_are_named(tmp_path):
    results = read(put_model(tmp_path, "good", 2.5), put_model(tmp_path, "lost", 0.0))
    chance = results[0].record.chance["rsum"]
    good, lost = (row.interval for row in rows_of(results))
    assert lost[0] < chance < good[0]
    assert "Cannot be told from chance: lost." in described(results, "s")


def test_rows_below_chance_are_named_and_distances_asked_for(tmp_path):
    models = [put_model(tmp_path, "own", -2.5), put_model(tmp_path, "good", 2.5)]
    said = described(read(*models), "s")
    assert "Worse than chance: own." in said
    assert not any("Cannot be told" in line for line in said)
    models.append(put_model(tmp_path, "distances", -2.5, external=True))
    (line,) = [line for line in described(read(*models), "s") if line.startswith("Worse")]
    assert line.startswith("Worse than chance: own, distances. Are these distances? Larger scores")


def test_ties_are_not_taken_for_distances(tmp_path):
    models = [put_model(tmp_path, "flat", -2.5, external=True, tied=97.5)]
    models.append(put_model(tmp_path, "good", 2.5))
    said = described(read(*models), "s")
    at = said.index("Worse than chance: flat.")
    assert said[at + 1].startswith(
        "flat: in 97.5 % of the queries its true items score as high as others, which counts"
    )
    models.append(put_model(tmp_path, "distances", -2.5, external=True, tied=3.0))
    said = described(read(*models), "s")
    assert any(line.startswith("Worse than chance: flat, distances. Are these") for line in said)


def test_one_of_a_thing_is_singular():
    assert [counted(n, "image") for n in (0, 1, 2000)] == ["0 images", "1 image", "2,000 images"]
    assert [counted(n, "query", "queries") for n in (1, 2)] == ["1 query", "2 queries"]
