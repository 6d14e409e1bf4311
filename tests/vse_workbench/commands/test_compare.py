"""The command that compares two runs, by files and by revisions of a real repository."""

import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
from commands import git, run_command
from ranking_cases import both_with

from pipeline.evaluation.columns import COLUMNS
from pipeline.evaluation.figures import metrics_digest, summarise
from pipeline.runtime.files import write_json
from pipeline.storage.groups import write_groups
from vse_workbench.commands.compare import main

IMAGES = 40
GRAPH = """
stages:
  evaluate:
    foreach:
      vse: {}
      cca: {}
    do:
      cmd: python put.py runs/${key} --metrics metrics/${key}.json --ranks data/ranks/${key}.h5
      deps:
      - runs/${key}
      metrics:
      - metrics/${key}.json:
          cache: false
      outs:
      - data/ranks/${key}.h5
"""
PUT = """
import shutil, sys
shutil.copyfile(sys.argv[1] + "/m.json", sys.argv[3])
shutil.copyfile(sys.argv[1] + "/r.h5", sys.argv[5])
"""


def put_run(metrics, ranks, gain=0, prefix="", protocol="full"):
    """A metrics and a rank file of 40 images with two captions each; gain: places won by each."""
    random, ids = np.random.default_rng(0), [f"{prefix}{n}.jpg" for n in range(IMAGES)]
    owners = [name for name in ids for _ in range(2)]
    ways = [np.minimum(IMAGES, random.geometric(0.15, size)) for size in (IMAGES, 2 * IMAGES)]
    criteria = {
        "naive": both_with(*(np.maximum(1, way - gain) for way in ways)),
        "csls": both_with(*ways),
    }
    content = {
        "i2t": {"ids": ids, "groups": ids},
        "t2i": {"ids": [f"c{n}" for n in range(len(owners))], "groups": owners},
    }
    for criterion, measured in criteria.items():
        for way, queries in measured.items():
            values = {f"{criterion}.{name}": of for name, of in queries.values.items()}
            content[way] |= {criterion: queries.ranks, **values}
    figures = {name: summarise(measured) for name, measured in criteria.items()}
    figures |= {"protocol": protocol}
    attributes = {"protocol": protocol, "intervals": "{}", "confidence": 0.95, "chance": "{}"}
    write_groups(ranks, content, attributes | {"metrics_sha256": metrics_digest(figures)})
    write_json(metrics, figures)


@pytest.fixture
def project(tmp_path):
    """A dvc.yaml, and the files of a weak and a strong model where it says."""
    (tmp_path / "dvc.yaml").write_text(GRAPH)
    for name, gain in (("cca", 0), ("vse", 2)):
        put_run(tmp_path / f"metrics/{name}.json", tmp_path / f"data/ranks/{name}.h5", gain)
    return tmp_path


@pytest.fixture
def compare(project):
    """What the command prints, in this process: it would load torch for every call otherwise."""

    def run(*arguments):
        done = run_command(main, *arguments, folder=project)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture
def refused(project):
    """The error of a comparison that must fail, in plain lines."""

    def run(*arguments):
        done = run_command(main, *arguments, folder=project)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith("error: ")
        assert done.stderr.count("\n") <= 3, done.stderr
        return done.stderr

    return run


def rows(text):
    """figure -> the cells after it."""
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]
    return {cells[0]: cells[1:] for cells in lines if cells}


def test_prints_a_table_and_a_conclusion(project, run_vse):
    files = ("data/ranks/cca.h5", "data/ranks/vse.h5")
    output = run_vse("compare", *files, cwd=project).stdout
    lines = output.splitlines()
    assert lines[:3] == [
        "A: data/ranks/cca.h5, naive",
        "B: data/ranks/vse.h5, naive",
        "40 images, 80 captions, protocol full, 2,000 resamples",
    ]
    figures = rows(output)
    assert list(figures)[2:] == [column.label for column in COLUMNS]
    a, b, difference, interval, verdict = figures["rsum"]
    assert float(difference) == pytest.approx(float(b) - float(a), abs=0.11)
    low, high = map(float, interval.split(" to "))
    assert 0 < low < float(difference) < high
    assert verdict == "B is better"
    expected = f"B is better in rsum by {float(difference):.1f} [{low:.1f}, {high:.1f}], also in "
    assert lines[-1].startswith(expected)


def test_a_program_reads_the_same(compare):
    files = ("data/ranks/cca.h5", "data/ranks/vse.h5")
    found = json.loads(compare(*files, "--json"))
    printed = rows(compare(*files))
    for each in found["figures"]:
        assert printed[each["figure"]][0] == f"{each['a']:.1f}"
        assert printed[each["figure"]][-1] == (
            f"{each['better']} is better" if each["better"] else "within noise"
        )
    assert found["criteria"] == ["naive", "naive"]
    assert found["conclusion"] in compare(*files)


def test_metrics_files_stand_for_their_ranks(compare):
    by_ranks = compare("data/ranks/cca.h5", "data/ranks/vse.h5")
    by_metrics = compare("metrics/cca.json", "metrics/vse.json")
    assert by_metrics.splitlines()[2:] == by_ranks.splitlines()[2:]


def test_criteria_of_one_or_both_runs(compare):
    alike = compare("metrics/cca.json", "metrics/vse.json", "--criterion", "csls")
    assert "B: metrics/vse.json, csls" in alike
    assert "rank every query alike" in alike
    output = compare("metrics/vse.json", "metrics/vse.json", "--criterion-b", "csls")
    assert output.startswith("A: metrics/vse.json, naive\nB: metrics/vse.json, csls\n")
    assert "A is better in rsum" in output


def test_seed_and_confidence_decide_the_intervals(compare):
    files = ("data/ranks/cca.h5", "data/ranks/vse.h5", "--resamples", 200)
    once, other, narrow = (
        rows(compare(*files, *options))["rsum"][3]
        for options in ((), ("--seed", 1), ("--confidence", 0.5))
    )
    assert len({once, other, narrow}) == 3


def test_runs_that_cannot_be_compared(project, refused):
    put_run(project / "m.json", project / "folds.h5", protocol="20_x2")
    one = "data/ranks/vse.h5"
    assert "differ in protocol: 20_x2 and full" in refused("folds.h5", one)
    text = "no ranks under criterion 'hungarian'; it has csls, naive"
    assert text in refused(one, one, "--criterion", "hungarian")


def test_files_that_are_not_there_or_of_something_else(project, refused):
    one = "data/ranks/vse.h5"
    assert refused(one, "gone.h5").startswith("error: gone.h5: no such file")
    assert refused(one, "metrics/gone.json").startswith("error: metrics/gone.json: no such file")
    (project / "half.h5").write_bytes((project / one).read_bytes()[:900])
    assert "half.h5: damaged" in refused("half.h5", one)
    (project / "odd.json").write_text("[]")
    assert "odd.json: not a metrics file" in refused("odd.json", one)


def test_metrics_without_ranks_of_the_same_run(project, refused):
    one = "data/ranks/vse.h5"
    shutil.copyfile(project / "metrics/vse.json", project / "vse.json")
    assert "vse.json: dvc.yaml has no rank file for it, only for metrics/vse.json" in refused(
        "vse.json", one
    )
    shutil.copyfile(project / "metrics/vse.json", project / "metrics/scan.json")
    assert "model 'scan': stage evaluate of dvc.yaml has cca, vse" in refused(
        "metrics/scan.json", one
    )
    shutil.copyfile(project / "metrics/cca.json", project / "metrics/vse.json")
    assert "was not written with data/ranks/vse.h5" in refused("metrics/vse.json", one)
    (project / "data/ranks/cca.h5").unlink()
    error = refused("metrics/cca.json", one)
    assert "data/ranks/cca.h5: no such file, the ranks of metrics/cca.json" in error
    assert "dvc checkout" in error


@pytest.mark.parametrize("name", ["vse", "HEAD", ":vse", "HEAD:", "metrics", "data/ranks"])
def test_names_that_are_neither_file_nor_revision_with_model(refused, name):
    error = refused(name, "data/ranks/vse.h5")
    assert (
        f"{name!r}: neither a rank file (.h5), a metrics file (.json), nor REVISION:MODEL" in error
    )
    assert "--model" in error


def test_revisions_and_experiments_out_of_the_cache(project, compare, refused):
    """main has a weak and a strong model; the experiment makes the weak one as strong."""

    def dvc(*words):
        path = f"{os.path.dirname(sys.executable)}{os.pathsep}{os.environ['PATH']}"
        environment = os.environ | {"PATH": path, "DVC_NO_ANALYTICS": "1"}
        command = [sys.executable, "-m", "dvc", *words, "--quiet"]
        subprocess.run(command, cwd=project, env=environment, check=True)

    def put_input(name, gain):
        put_run(project / f"runs/{name}/m.json", project / f"runs/{name}/r.h5", gain)

    (project / "put.py").write_text(PUT)
    put_input("cca", 0)
    put_input("vse", 2)
    git("init", "--quiet", "--initial-branch=main", folder=project)
    dvc("init")
    (project / ".gitignore").write_text("/data/ranks\n")
    dvc("repro")
    git("add", "--all", folder=project)
    git("commit", "--quiet", "--message", "first", folder=project)
    put_input("cca", 2)
    dvc("repro")
    dvc("exp", "save", "--name", "as-strong")
    (project / "data/ranks/cca.h5").unlink()  # revisions must not look at the workspace

    weak_and_strong = compare("main:cca", "HEAD:vse")
    assert "A: main:cca, naive" in weak_and_strong
    assert "B is better in rsum" in weak_and_strong
    assert (
        compare("main:cca", "data/ranks/vse.h5").splitlines()[2:]
        == (weak_and_strong.splitlines()[2:])
    )
    assert "B is better in rsum" in compare("HEAD", "as-strong", "--model", "cca")
    assert "rank every query alike" in compare("as-strong:cca", "HEAD", "--model", "vse")

    assert "nowhere:vse: unknown Git revision 'nowhere'" in refused("nowhere:vse", "HEAD:vse")
    assert "HEAD:scan: model 'scan': stage evaluate of dvc.yaml has cca, vse" in refused(
        "HEAD:scan", "HEAD:vse"
    )
    error = refused("HEAD:vse", "HEAD:vse", "--criterion", "dual_softmax")
    assert error.startswith("error: HEAD:vse: vse.h5: no ranks under criterion 'dual_softmax'")
    shutil.rmtree(project / ".dvc/cache")
    error = refused("HEAD:cca", "HEAD:vse")
    assert "HEAD:cca: data/ranks/cca.h5: not in that revision or not in DVC's cache" in error
    assert "dvc fetch" in error
    assert "dvc repro" in error
