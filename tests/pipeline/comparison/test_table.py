"""The table of models: what is in it, and what is refused."""

import json

import pytest
import report_world
from ranking_cases import a_split

from pipeline.comparison.results import read_metrics, read_results
from pipeline.comparison.table import aligned, report, rows_of
from pipeline.evaluation.columns import COLUMNS, headings
from pipeline.evaluation.file import write_ranks
from pipeline.evaluation.folds import evaluate
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.files import write_json


def put_model(folder, name, signal, images=20, prefix="", folds=1, resamples=50, **said):
    """said: changes of the metrics that both files are of."""
    split = a_split(images, (3,), signal, prefix=prefix)
    evaluation = evaluate(split, folds, resamples, 0.95, seed=0)
    metrics, ranks = folder / f"{name}.json", folder / f"{name}.h5"
    content = evaluation.summary() | said
    write_json(metrics, content)
    write_ranks(ranks, split, evaluation, 0.95, content)
    return metrics, ranks


def read(*models):
    return read_results([metrics for metrics, _ in models], [ranks for _, ranks in models])


def cells(line):
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_report_has_every_figure_the_best_in_bold_and_chance(tmp_path):
    results = read(put_model(tmp_path, "weak", 0.2), put_model(tmp_path, "strong", 2.5))
    lines = report(results, "shapes", "max_margin").splitlines()
    assert "Dataset shapes, ranking loss max_margin" in lines[2]
    assert "20 images, 60 captions, protocol full" in lines[2]
    head, _, weak, strong, chance = lines[-5:]
    assert cells(head) == ["model", *headings(), "95 %"]
    assert cells(head)[1:7] == ["i2t R@1", "R@5", "R@10", "Med r", "Mean r", "mAP@R"]
    figures = json.loads((tmp_path / "strong.json").read_text())["naive"]
    values = [*figures["i2t"].values(), *figures["t2i"].values(), figures["rsum"]]
    assert cells(strong)[:-1] == ["strong", *(f"**{value:.1f}**" for value in values)]
    low, high = results[1].record.intervals["naive"]["rsum"]
    assert cells(strong)[-1] == f"{low:.1f} to {high:.1f}"
    assert low < figures["rsum"] < high
    assert cells(weak)[0] == "weak"
    figures = {column.label: cell for column, cell in zip(COLUMNS, cells(chance)[1:], strict=False)}
    assert figures["t2i R@1"] == figures["t2i mAP@R"] == "5.0"
    assert figures["t2i Mean r"] == "10.5"


def test_columns_are_aligned(tmp_path):
    models = [put_model(tmp_path, name, 1.0) for name in ("a_long_name", "b")]
    table = report(read(*models), "shapes", "max_margin").splitlines()[-5:]
    bars = [[i for i, sign in enumerate(line) if sign == "|"] for line in table]
    assert all(places == bars[0] for places in bars)
    assert len({len(line) for line in table}) == 1
    assert aligned([["a", "b"], ["long", "1"]])[1] == "|------|----:|"


def test_models_that_cannot_be_compared_are_refused(tmp_path):
    first = put_model(tmp_path, "first", 1.0)
    with pytest.raises(WorkbenchError, match="first and other were evaluated on different images"):
        read(first, put_model(tmp_path, "other", 1.0, prefix="x"))
    with pytest.raises(WorkbenchError, match="differ in protocol: full and 10_x2"):
        read(first, put_model(tmp_path, "folded", 1.0, folds=2))


def test_metrics_and_ranks_come_in_pairs(tmp_path):
    (metrics, ranks), (_, other) = (put_model(tmp_path, name, 1.0) for name in ("a", "b"))
    with pytest.raises(WorkbenchError, match=r"a\.json: no rank file named a\.h5"):
        read_results([metrics], [other])
    with pytest.raises(WorkbenchError, match="without a metrics file: b"):
        read_results([metrics], [ranks, other])


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
        ({"extended": {}}, r"extended\.naive\.i2t\.r1"),
    ):
        put_model(tmp_path, "vse", 1.0, **other)
        with pytest.raises(WorkbenchError, match=rf"not a metrics file: {key} is missing"):
            read_metrics(path)


def test_a_row_per_model_and_criterion_and_the_best_of_each_column_in_bold(tmp_path):
    report_world.put_model(tmp_path, "weak", report_world.made_scores(0.1))
    report_world.put_model(tmp_path, "strong", report_world.made_scores(0.6), csls=True)
    results = report_world.results_of(tmp_path, "weak", "strong")
    assert [(row.label, row.is_transductive) for row in rows_of(results)] == [
        ("weak", False), ("strong", False), ("strong + csls", True),
    ]  # fmt: skip
    text = report(results, "shapes", "max_margin")
    assert "Transductive, scores change with the other test queries: csls." in text
    rows = [cells(line)[1:-1] for line in text.splitlines()[-4:-1]]
    for column, figures in zip(COLUMNS, zip(*rows, strict=True), strict=True):
        values = [float(figure.strip("*")) for figure in figures]
        best = max(values) if column.better == "larger" else min(values)
        assert [figure.startswith("**") for figure in figures] == [v == best for v in values]
    assert "ransductive" not in report(results[:1], "shapes", "max_margin")
    assert "**" not in report(results[:1], "shapes", "max_margin")


def test_a_shortlist_is_of_all_test_images_where_the_first_alone_are_evaluated(tmp_path):
    model = put_model(tmp_path, "dp_rnn", 1.0, shortlist=25, test_images=5000)
    results = read(put_model(tmp_path, "vse", 1.0, shortlist=20), model)
    assert [row.label for row in rows_of(results)] == ["vse", "dp_rnn"]
    text = report(results[1:], "s", "l")
    assert "Test split: the first 20 of 5,000 images, 60 captions" in text
    notes = [line for line in report(results, "s", "l").splitlines() if "in full" in line]
    assert notes == [  # vse: all 20 images
        "dp_rnn: 25 of 5,000 images per caption were scored in full, all others were moved behind "
        "them."
    ]


def test_rows_that_may_be_chance_are_named(tmp_path):
    results = read(put_model(tmp_path, "good", 2.5), put_model(tmp_path, "lost", 0.0))
    chance = results[0].record.chance["rsum"]
    good, lost = (row.interval for row in rows_of(results))
    assert lost[0] < chance < good[0]
    assert "Cannot be told from chance: lost." in report(results, "s", "l").splitlines()
