"""Files that were changed, cut short or exchanged: named, never shown as a model's result."""

import json
import re
import shutil
from pathlib import Path

import pytest
from commands import fail, run_command, succeed
from corpora import ROOT, change_params
from report_world import made_scores, put_corpus, put_model

from pipeline.training.curve import curve_tsv
from stages.average_scores import main as average_scores
from stages.compare import main as compare
from stages.evaluate import main as evaluate
from stages.tabulate_plots import main as tabulate_plots
from vse_workbench.commands.compare import main as compare_runs

NAMES = ("vse", "scan")
CORPUS = ["--images", "images.parquet", "--captions", "captions.parquet"]
COMPARED = [*(f"--metrics=metrics/{name}.json" for name in NAMES), "--ranks=ranks"]
COMPARED += ["--curves=curves", *CORPUS, "--page", "r/index.html", "--output=r/c.md"]


def evaluated(name: str) -> list[str]:
    return [
        f"--scores=scores/{name}.h5",
        f"--metrics=metrics/{name}.json",
        f"--ranks=ranks/{name}.h5",
    ]


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    change_params(folder, evaluation__bootstrap=20)
    put_corpus(folder)
    rows = [{"epoch": n, "loss": 9.0 / n, "val_rsum": 100.0 * n} for n in (1, 2, 3)]
    for number, name in enumerate(NAMES):
        put_model(folder, name, made_scores(0.3 + number, seed=number))
        succeed(evaluate, folder, *evaluated(name))
        (folder / f"curves/{name}.tsv").write_text(curve_tsv(rows))
    succeed(compare, folder, *COMPARED)
    return folder


def test_further_recalls_go_from_scores_to_the_table_and_the_page(folder: Path) -> None:
    change_params(folder, evaluation__recall_k=[2])
    succeed(evaluate, folder, *evaluated("vse"))
    assert "vse and scan differ in their metrics" in fail(compare, folder, *COMPARED)
    succeed(evaluate, folder, *evaluated("scan"))
    succeed(compare, folder, *COMPARED)
    assert (folder / "r/c.md").read_text().count("|   R@2 |") == 4  # naive, and all at once
    assert ">R@2<" in (folder / "r/index.html").read_text()
    both = run_command(compare_runs, "ranks/vse.h5", "ranks/scan.h5", folder=folder).stdout
    recall = json.loads((folder / "metrics/vse.json").read_text())["naive"]["t2i"]["r2"]
    assert re.search(rf"t2i R@2 +\| +{recall:.1f} \|", both)


def exchange(folder: Path, kind: str) -> None:
    (one, other), ending = [next((folder / kind).glob(f"{n}.*")) for n in NAMES], ".away"
    one.rename(one.with_suffix(ending))
    other.rename(one)
    one.with_suffix(ending).rename(other)


def test_ranks_of_another_model_are_not_tabulated(folder: Path) -> None:
    tables = ("training", "recall", "separation", "hubs")
    files = ["--ranks=ranks", "--curves=curves", *(f"--{name}=plots/{name}.tsv" for name in tables)]
    shutil.copy(ROOT / "dvc.yaml", folder)
    succeed(tabulate_plots, folder, *files)
    exchange(folder, "ranks")
    said = fail(tabulate_plots, folder, *files)
    assert "ranks/scan.h5: written as 'vse', not as 'scan': of another model" in said


def test_scores_of_another_model_are_neither_evaluated_nor_averaged(folder: Path) -> None:
    mine = {"members": ["vse", "scan"], "weights": None, "normalise": "none"}
    change_params(folder, average_scores__mine=mine)
    shutil.copy(ROOT / "dvc.yaml", folder)
    averaging = ("mine", "--output=scores/mine.h5")
    succeed(average_scores, folder, *averaging)
    exchange(folder, "scores")
    said = fail(evaluate, folder, *evaluated("vse"))
    assert "scores/vse.h5: scores of scan, not of vse" in said
    assert "name it scan.h5 in a folder of its own" in said
    assert "scores/vse.h5: scores of scan, not of vse" in fail(average_scores, folder, *averaging)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text[: text.rindex("\n", 0, -1) + 1],
        lambda text: text.replace("\t4.5\t", "\t4.6\t"),
        lambda text: text[:-9],
    ],
    ids=["a line less", "another figure", "cut short"],
)
def test_a_curve_that_is_not_whole_is_not_drawn(folder: Path, change) -> None:
    path = folder / "curves/vse.tsv"
    path.write_text(change(path.read_text()))
    said = fail(compare, folder, *COMPARED)
    assert "curves/vse.tsv: cut short or changed" in said
