"""The table of models: what is in it, and what is refused."""

import copy
import json

import numpy as np
import pytest

from pipeline.comparison.results import read_metrics, read_results
from pipeline.comparison.table import aligned, report, rows_of
from pipeline.evaluation.columns import COLUMNS, METRICS, headings
from pipeline.evaluation.file import write_ranks
from pipeline.evaluation.folds import evaluate
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.files import write_json
from pipeline.scores.file import SplitScores
from pipeline.storage.groups import GroupFile, write_groups


def put_model(folder, name, signal, images=20, prefix="", folds=1, resamples=50):
    owner = np.repeat(np.arange(images), 3)
    scores = np.random.default_rng(0).standard_normal((images, len(owner)))
    scores += signal * np.equal.outer(np.arange(images), owner)
    ids = [f"{prefix}{n}" for n in range(images)]
    split = SplitScores(
        scores.astype(np.float32),
        ids,
        [f"c{n}" for n in range(len(owner))],
        [ids[n] for n in owner],
        ids,
    )
    evaluation = evaluate(split, folds, resamples, 0.95, seed=0)
    metrics, ranks = folder / f"{name}.json", folder / f"{name}.h5"
    write_json(metrics, evaluation.summary())
    write_ranks(ranks, split, evaluation, 0.95)
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
    assert "*" not in weak
    figures = {column.label: cell for column, cell in zip(COLUMNS, cells(chance)[1:], strict=False)}
    assert figures["t2i R@1"] == figures["t2i mAP@R"] == "5.0"
    assert figures["t2i Mean r"] == "10.5"
    assert "*" not in chance


def test_columns_are_aligned(tmp_path):
    results = read(put_model(tmp_path, "a_long_name", 0.2), put_model(tmp_path, "b", 2.5))
    table = report(results, "shapes", "max_margin").splitlines()[-5:]
    bars = [[i for i, sign in enumerate(line) if sign == "|"] for line in table]
    assert all(places == bars[0] for places in bars)
    assert len({len(line) for line in table}) == 1
    assert aligned([["a", "b"], ["long", "1"]])[1] == "|------|----:|"


def test_equal_figures_are_both_bold_and_a_lone_model_is_not(tmp_path):
    models = [put_model(tmp_path, name, 1.0) for name in ("one", "two")]
    both = report(read(*models), "shapes", "max_margin").splitlines()
    assert both[-2].count("**") == both[-3].count("**") == 2 * len(COLUMNS)
    assert "**" not in report(read(models[0]), "shapes", "max_margin")


def test_no_intervals_without_resamples(tmp_path):
    results = read(put_model(tmp_path, "vse", 1.0, resamples=0))
    assert cells(report(results, "shapes", "max_margin").splitlines()[-2])[-1] == "-"


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


def test_a_protocol_other_than_the_rank_files_is_refused(tmp_path):
    metrics, ranks = put_model(tmp_path, "vse", 1.0)
    metrics.write_text(metrics.read_text().replace('"full"', '"1k_x5"'))
    with pytest.raises(WorkbenchError, match=r"vse\.json: protocol 1k_x5, but .* full"):
        read_results([metrics], [ranks])


def test_files_from_before_a_metric_say_how_to_get_it(tmp_path):
    """Each of a model's two files alone."""
    metrics, ranks = put_model(tmp_path, "vse", 1.0)
    content = json.loads(metrics.read_text())
    del content["naive"]["t2i"]["mapr"]
    write_json(tmp_path / "old/vse.json", content)
    with pytest.raises(WorkbenchError, match=r"vse\.json: .*naive\.t2i\.mapr is missing") as error:
        read_results([tmp_path / "old/vse.json"], [ranks])
    assert error.value.hint == "write it again with: dvc repro evaluate"
    file = GroupFile(ranks)
    chance = json.loads(file.attributes["chance"])
    del chance["i2t"]["mapr"]
    groups = {way: {"ids": file.texts(way, "ids")} for way in ("i2t", "t2i")}
    attributes = {k: v for k, v in file.attributes.items() if k != "schema_version"}
    write_groups(tmp_path / "old/vse.h5", groups, attributes | {"chance": json.dumps(chance)})
    with pytest.raises(WorkbenchError, match=r"vse\.h5: not a rank file: .*i2t\.mapr") as error:
        read_results([metrics], [tmp_path / "old/vse.h5"])
    assert error.value.hint == "write it again with: dvc repro evaluate"


WITHIN = {metric.name: 1.0 + n % 2 for n, metric in enumerate(METRICS)}  # in every span
GOOD = {
    "naive": {"i2t": WITHIN, "t2i": WITHIN | {"r5": 2}, "rsum": 12.0},
    "protocol": "full",
}


@pytest.mark.parametrize(
    ("keys", "value", "message"),
    [
        (("naive", "i2t", "r1"), 100.5, r"naive\.i2t\.r1 = 100\.5; allowed is a number .* 100"),
        (("naive", "i2t", "r1"), float("nan"), r"naive\.i2t\.r1 = nan"),
        (("naive", "t2i", "medr"), float("inf"), r"naive\.t2i\.medr = inf"),
        (("naive", "t2i", "medr"), 10**400, r"naive\.t2i\.medr = 1000"),
        (("naive", "t2i", "r5"), "7", r"naive\.t2i\.r5 = '7'"),
        (("naive", "t2i", "r5"), True, r"naive\.t2i\.r5 = True"),
        (
            ("naive", "t2i", "mapr"),
            101,
            r"naive\.t2i\.mapr = 101; allowed is a number from 0 to 100",
        ),
        (("naive", "rsum"), -1, r"naive\.rsum = -1"),
        (("naive", "rsum"), None, r"naive\.rsum = None"),
        (("naive", "i2t"), 3, r"naive\.i2t\.r1 is missing"),
        (("naive",), [], r"naive\.i2t\.r1 is missing"),
        (("protocol",), 5, "no protocol"),
    ],
)
def test_malformed_metrics_are_named(tmp_path, keys, value, message):
    content = copy.deepcopy(GOOD)
    node = content
    for key in keys[:-1]:
        node = node[key]
    node[keys[-1]] = value
    path = tmp_path / "vse.json"
    path.write_text(json.dumps(content))
    with pytest.raises(WorkbenchError, match=rf"vse\.json: .*{message}"):
        read_metrics(path)


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"7", b"\xff\xfe", b"[" * 100_000, b"{}"])
def test_other_files_are_not_metrics(tmp_path, text):
    path = tmp_path / "vse.json"
    path.write_bytes(text)
    with pytest.raises(WorkbenchError, match=r"vse\.json: not a (JSON|metrics) file"):
        read_metrics(path)


def test_missing_folders_and_huge_files(tmp_path):
    for path in (tmp_path, tmp_path / "gone.json"):
        with pytest.raises(WorkbenchError, match="no such file"):
            read_metrics(path)
    (tmp_path / "big.json").write_text(" " * (1 << 21))
    with pytest.raises(WorkbenchError, match="too large"):
        read_metrics(tmp_path / "big.json")


def with_csls(metrics, ranks):
    """Add figures of a second criterion, one better and one worse than naive, to a model."""
    content = json.loads(metrics.read_text())
    other = copy.deepcopy(content["naive"])
    other["rsum"] += 30
    other["i2t"]["medr"] += 2
    write_json(metrics, {"csls": other} | content)  # naive comes first whatever the file's order
    return metrics, ranks


def test_a_row_per_model_and_criterion(tmp_path):
    plain = put_model(tmp_path, "cca", 0.2, resamples=0)
    both = with_csls(*put_model(tmp_path, "vse", 1.0, resamples=0))
    results = read(plain, both)
    assert [(row.label, row.is_transductive) for row in rows_of(results)] == [
        ("cca", False), ("vse", False), ("vse + csls", True),
    ]  # fmt: skip
    text = report(results, "shapes", "max_margin")
    assert "Transductive, scores change with the other test queries: csls." in text
    naive, csls = (cells(line) for line in text.splitlines()[-3:-1])
    assert csls[-2] == f"**{results[1].criteria['naive']['rsum'] + 30:.1f}**"
    assert not naive[-2].startswith("*")
    assert naive[4].startswith("*")
    assert not csls[4].startswith("*")
    assert "ransductive" not in report(read(plain), "shapes", "max_margin")


def test_a_criterion_that_helps_a_lone_model_is_marked(tmp_path):
    text = report(read(with_csls(*put_model(tmp_path, "vse", 1.0, resamples=0))), "s", "l")
    # all but the median rank that got worse
    assert text.splitlines()[-2].count("**") == 2 * len(COLUMNS) - 2


def test_intervals_belong_to_their_criterion(tmp_path):
    with pytest.raises(WorkbenchError, match=r"vse\.json: its rank file has no interval of csls"):
        read(with_csls(*put_model(tmp_path, "vse", 1.0)))


def with_shortlist(metrics, ranks, shortlist):
    """Say in a model's metrics how many images per caption were scored in full."""
    write_json(metrics, json.loads(metrics.read_text()) | {"shortlist": shortlist})
    return metrics, ranks


def test_a_shortlist_is_said_and_is_no_criterion(tmp_path):
    plain = put_model(tmp_path, "vse", 1.0)
    short = with_shortlist(*put_model(tmp_path, "dp_rnn", 1.0), 5)
    results = read(plain, short)
    assert [result.shortlist for result in results] == [None, 5]
    assert [row.label for row in rows_of(results)] == ["vse", "dp_rnn"]
    notes = [line for line in report(results, "s", "l").splitlines() if "in full" in line]
    assert notes == [
        "dp_rnn: 5 of 20 images per caption were scored in full, all others were moved behind them."
    ]


def test_a_shortlist_is_of_all_test_images_where_the_first_alone_are_evaluated(tmp_path):
    metrics, ranks = with_shortlist(*put_model(tmp_path, "dp_rnn", 1.0), 25)
    write_json(metrics, json.loads(metrics.read_text()) | {"test_images": 5000})
    text = report(read((metrics, ranks)), "s", "l")
    assert "Test split: the first 20 of 5,000 images, 60 captions" in text
    assert "dp_rnn: 25 of 5,000 images per caption were scored in full" in text
    assert "test_images" not in text


@pytest.mark.parametrize("shortlist", [None, 20, 30])
def test_nothing_is_said_where_all_images_were_scored_in_full(tmp_path, shortlist):
    model = put_model(tmp_path, "dp_rnn", 1.0)
    results = read(model if shortlist is None else with_shortlist(*model, shortlist))
    assert "in full" not in report(results, "s", "l")


def test_rows_that_may_be_chance_are_named(tmp_path):
    results = read(put_model(tmp_path, "good", 2.5), put_model(tmp_path, "lost", 0.0))
    chance = results[0].record.chance["rsum"]
    good, lost = (row.interval for row in rows_of(results))
    assert lost[0] < chance < good[0]
    assert "Cannot be told from chance: lost." in report(results, "s", "l").splitlines()


def test_without_intervals_nothing_is_said_of_chance(tmp_path):
    results = read(put_model(tmp_path, "lost", 0.0, resamples=0))
    assert "told from chance" not in report(results, "s", "l")


@pytest.mark.parametrize("key", ["shortlist", "test_images"])
@pytest.mark.parametrize("number", ["7", None, -1, [3], True, 1.5, 0])
def test_malformed_numbers_of_images_are_named(tmp_path, key, number):
    path = tmp_path / "dp_rnn.json"
    path.write_text(json.dumps(GOOD | {key: number}))
    with pytest.raises(WorkbenchError, match=rf"dp_rnn\.json: {key} = "):
        read_metrics(path)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"csls": {}}, r"csls\.i2t\.r1 is missing"),
        ({"csls": 3}, r"csls\.i2t\.r1 is missing"),
        ({"csls": GOOD["naive"] | {"rsum": 601}}, r"csls\.rsum = 601"),
        ({"a | b": GOOD["naive"]}, r"'a \| b' is no name of a criterion"),
    ],
)
def test_malformed_criteria_are_named(tmp_path, other, message):
    path = tmp_path / "vse.json"
    path.write_text(json.dumps(GOOD | other))
    with pytest.raises(WorkbenchError, match=rf"vse\.json: .*{message}"):
        read_metrics(path)
