"""Files that were changed, cut short or exchanged: named, never shown as a model's result."""

import json
import re
import shutil
from pathlib import Path

import pytest
from commands import fail, run_command, succeed
from report_world import made_scores, put_corpus, put_model

from pipeline.training.curve import curve_tsv
from stages.average_scores import main as average_scores
from stages.compare import main as compare
from stages.evaluate import main as evaluate
from stages.tabulate_plots import main as tabulate_plots
from vse_workbench.commands.compare import main as compare_runs

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("vse", "scan")
CORPUS = ["--images", "images.parquet", "--captions", "captions.parquet"]
PAGE = ["--curves=curves", *CORPUS, "--page", "r/index.html"]


def evaluated(folder: Path, name: str) -> list[str]:
    return [f"--scores=scores/{name}.h5", f"--metrics=metrics/{name}.json",
            f"--ranks=ranks/{name}.h5"]  # fmt: skip


def compared(folder: Path) -> list[str]:
    return [*(f"--metrics=metrics/{name}.json" for name in NAMES), "--ranks=ranks",
            *PAGE, "--output=r/c.md"]  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    (folder / "data/raw/shapes").mkdir(parents=True)
    params = re.sub(r"bootstrap: \d+", "bootstrap: 20", (ROOT / "params.yaml").read_text())
    (folder / "params.yaml").write_text(params.replace("csls", "naive"))
    put_corpus(folder)
    rows = [{"epoch": n, "loss": 9.0 / n, "val_rsum": 100.0 * n} for n in (1, 2, 3)]
    for number, name in enumerate(NAMES):
        put_model(folder, name, made_scores(0.3 + number, seed=number))
        succeed(evaluate, folder, *evaluated(folder, name))
        (folder / f"curves/{name}.tsv").write_text(curve_tsv(rows))
    succeed(compare, folder, *compared(folder))
    return folder


@pytest.fixture
def project(made, tmp_path: Path) -> Path:
    return shutil.copytree(made, tmp_path, dirs_exist_ok=True)


def test_further_recalls_go_from_scores_to_the_table_and_the_page(project: Path) -> None:
    params = project / "params.yaml"
    params.write_text(params.read_text().replace("recall_k: []", "recall_k: [2]"))
    succeed(evaluate, project, *evaluated(project, "vse"))
    assert "vse and scan differ in their metrics" in fail(compare, project, *compared(project))
    succeed(evaluate, project, *evaluated(project, "scan"))
    succeed(compare, project, *compared(project))
    assert (project / "r/c.md").read_text().count("|   R@2 |") == 4  # naive, and all at once
    assert ">R@2<" in (project / "r/index.html").read_text()
    both = run_command(compare_runs, "ranks/vse.h5", "ranks/scan.h5", folder=project).stdout
    recall = json.loads((project / "metrics/vse.json").read_text())["naive"]["t2i"]["r2"]
    assert re.search(rf"t2i R@2 +\| +{recall:.1f} \|", both)


def exchange(folder: Path, *kinds: str) -> None:
    for kind in kinds:
        (one, other), ending = [next((folder / kind).glob(f"{n}.*")) for n in NAMES], ".away"
        one.rename(one.with_suffix(ending))
        other.rename(one)
        one.with_suffix(ending).rename(other)


@pytest.mark.parametrize(
    ("kinds", "message"),
    [
        (["metrics"], r"metrics/vse\.json: was not written with ranks/vse\.h5"),
        (["metrics", "ranks"], r"ranks/vse\.h5: written as 'scan'"),
    ],
)
def test_files_of_another_model_are_refused(project: Path, kinds, message: str) -> None:
    exchange(project, *kinds)
    assert re.search(message, fail(compare, project, *compared(project)))


def test_ranks_of_another_model_are_not_tabulated(project: Path) -> None:
    tables = ("training", "recall", "separation", "hubs")
    files = ["--ranks=ranks", "--curves=curves", *(f"--{name}=plots/{name}.tsv" for name in tables)]
    shutil.copy(ROOT / "dvc.yaml", project)
    succeed(tabulate_plots, project, *files)
    exchange(project, "ranks")
    said = fail(tabulate_plots, project, *files)
    assert "ranks/scan.h5: written as 'vse', not as 'scan': of another model" in said


def test_scores_of_another_model_are_neither_evaluated_nor_averaged(project: Path) -> None:
    average = "  mine: {members: [vse, scan], weights: null, normalise: none}\n"
    params, key = project / "params.yaml", "average_scores:\n"
    params.write_text(params.read_text().replace(key, key + average))
    shutil.copy(ROOT / "dvc.yaml", project)
    averaging = ("mine", "--output=scores/mine.h5")
    succeed(average_scores, project, *averaging)
    exchange(project, "scores")
    said = fail(evaluate, project, *evaluated(project, "vse"))
    assert "scores/vse.h5: scores of scan, not of vse" in said
    assert "name it scan.h5 in a folder of its own" in said
    assert "scores/vse.h5: scores of scan, not of vse" in fail(average_scores, project, *averaging)


def test_a_changed_figure_is_not_printed(project: Path) -> None:
    path = project / "metrics/vse.json"
    content = json.loads(path.read_text())
    content["naive"]["i2t"]["r1"] = 99.9
    path.write_text(json.dumps(content))
    said = fail(compare, project, *compared(project))
    assert "metrics/vse.json: was not written with ranks/vse.h5, or was changed since" in said


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text[: text.rindex("\n", 0, -1) + 1],
        lambda text: text.replace("\t4.5\t", "\t4.6\t"),
        lambda text: text[:-9],
    ],
    ids=["a line less", "another figure", "cut short"],
)
def test_a_curve_that_is_not_whole_is_not_drawn(project: Path, change) -> None:
    path = project / "curves/vse.tsv"
    path.write_text(change(path.read_text()))
    said = fail(compare, project, *compared(project))
    assert "curves/vse.tsv: cut short or changed" in said
