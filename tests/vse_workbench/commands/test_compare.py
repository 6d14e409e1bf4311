"""`vse compare`, by files and by revisions of a real repository, which `vse analyse` reads, too."""

import json
import shutil
import statistics

import pytest
from commands import fail, git, run_command
from corpora import change_params
from dvc.repo import Repo
from report_world import made_scores, put_model

from pipeline.evaluation.findings import separation
from pipeline.evaluation.rank_file import COLUMNS
from vse_workbench.commands.analyse import main as analyse
from vse_workbench.commands.compare import main

GRAPH = """
stages:
  score:
    foreach: [cca, vse]
    do:
      cmd: "true --output scores/${item}.h5"
      outs:
      - scores/${item}.h5
  evaluate:
    foreach: [cca, vse]
    do:
      cmd: "true --metrics metrics/${item}.json --ranks ranks/${item}.h5"
      metrics:
      - metrics/${item}.json:
          cache: false
      outs:
      - ranks/${item}.h5
"""
WEAK, STRONG = 0.1, 0.6
RANKS = "ranks/cca.h5", "ranks/vse.h5"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    (folder / "dvc.yaml").write_text(GRAPH)
    for name, signal in (("cca", WEAK), ("vse", STRONG)):
        put_model(folder, name, made_scores(signal), csls=True)
    return folder


@pytest.fixture
def project(runs, tmp_path):
    return shutil.copytree(runs, tmp_path, dirs_exist_ok=True)


def compare(folder, *arguments):
    done = run_command(main, *arguments, folder=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def rows(text):
    """figure -> the cells after it."""
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]
    return {cells[0]: cells[1:] for cells in lines if cells}


def test_prints_a_table_and_a_conclusion(runs):
    output = compare(runs, *RANKS)
    lines = output.splitlines()
    assert lines[:3] == [
        "A: ranks/cca.h5, naive",
        "B: ranks/vse.h5, naive",
        "12 images, 30 captions, protocol full, 2,000 resamples",
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
    by_metrics = compare(runs, "metrics/cca.json", "metrics/vse.json")
    assert by_metrics.splitlines()[2:] == lines[2:]


def test_a_program_reads_the_same(runs):
    found, printed = json.loads(compare(runs, *RANKS, "--json")), compare(runs, *RANKS)
    for each in found["figures"]:
        cells = rows(printed)[each["figure"]]
        assert cells[0] == f"{each['a']:.1f}"
        assert cells[-1] == (f"{each['better']} is better" if each["better"] else "within noise")
    assert found["criteria"] == ["naive", "naive"]
    assert found["conclusion"] in printed


def test_two_settings_over_seeds(project):
    """Given one by one or as folders: the same; s and q are those of the seeds' differences."""
    for number, signals in enumerate([(0.1, 0.4), (0.2, 0.5), (0.15, 0.7)], 1):
        for side, signal in zip("ab", signals, strict=True):
            put_model(project / side, str(number), made_scores(signal, seed=number))
    sides = [[f"{side}/ranks/{number}.h5" for number in (1, 2, 3)] for side in "ab"]
    output = compare(project, *map(",".join, sides))
    assert "Means of no. 1, no. 2, no. 3; s: deviation over seeds, q: over images" in output
    by_folder = compare(project, "a/ranks", "b/ranks")
    assert rows(by_folder) == rows(output)
    each = [json.loads(compare(project, *pair, "--json")) for pair in zip(*sides, strict=True)]
    rsums = [found["figures"][-1] for found in each]
    found = json.loads(compare(project, "a/ranks", "b/ranks", "--json"))["figures"][-1]
    differences = [one["b"] - one["a"] for one in rsums]
    assert found["s"] == pytest.approx(statistics.stdev(differences))
    assert found["b"] - found["a"] == pytest.approx(statistics.fmean(differences))
    assert rows(output)["rsum"][4:6] == [f"{found['s']:.1f}", f"{found['q']:.1f}"]


def test_more_than_two_runs(project):
    """By falling rsum, with the group that cannot be told from the first."""
    put_model(project / "other", "cca", made_scores(STRONG, seed=0))
    names = RANKS[0], RANKS[1], "other/ranks/cca.h5"
    output = compare(project, *names)
    lines = output.splitlines()
    assert lines[:3] == [
        f"{letter}: {name}, naive" for letter, name in zip("ABC", names, strict=True)
    ]
    assert [line for line in rows(output) if line in "ABC" and line] == ["B", "C", "A"]
    assert rows(output)["C"][-2:] == ["0.0 [0.0, 0.0] =", "1.000"]
    assert lines[-1] == "Cannot be told from B: C (Holm's correction, 3 pairs, 95 %)."
    found = json.loads(compare(project, *names, "--json"))
    assert found["conclusion"] == lines[-1]
    assert [run["run"] for run in found["runs"]] == ["B", "C", "A"]
    assert [run["name"] for run in found["runs"]] == [names[1], names[2], names[0]]
    assert found["runs"][0]["behind_first"] is None
    assert found["runs"][1]["behind_first"]["tied"] is True
    error = fail(main, project, *names, "--criterion-b", "csls")
    assert error.startswith("error: --criterion-b with 3 runs: B is one of two alone")


@pytest.mark.parametrize(("names", "found"), [((), "none"), ((RANKS[0],), f"1: {RANKS[0]}")])
def test_fewer_than_two_runs(runs, names, found):
    assert fail(main, runs, *names).startswith(f"error: runs are given: {found}\nname from 2 to 26")


def test_published_rows_of_params_stand_below(project):
    row = {"model": "vse", "paper": "P", "table": "t", "row": "r", "split": "flickr8k"}
    change_params(project, published=[row | {"t2i": {"r1": 40.0}}])
    output = compare(project, *RANKS)
    assert "B, published figures:" in output
    assert "A, published figures:" not in output
    assert output.splitlines()[-1] == (
        "- Not compared, vse: P, t, r (t2i R@1 40): of another split, Flickr8k; measured was none "
        "that is known."
    )


def test_criteria_of_one_or_both_runs(runs):
    metrics = json.loads((runs / "metrics/vse.json").read_text())
    for options, criteria in (
        (["--criterion", "csls"], ("csls", "csls")),
        (["--criterion-b", "csls"], ("naive", "csls")),
    ):
        output = compare(runs, RANKS[1], RANKS[1], *options)
        assert [line.split(", ")[1] for line in output.splitlines()[:2]] == list(criteria)
        shown = [f"{metrics[criterion]['rsum']:.1f}" for criterion in criteria]
        assert rows(output)["rsum"][:2] == shown


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("gone.h5", "error: gone.h5: no such file"),
        ("metrics/gone.json", "error: metrics/gone.json: no such file"),
        *(
            (name, f"error: {name!r}: neither a rank file (.h5), a metrics file (.json), nor REV")
            for name in ("vse", ":vse", "HEAD:")
        ),
        ("vse,cca", "error: 'vse': neither"),
        ("ranks", "error: A has cca.h5, vse.h5, B has no. 1\nname the same seeds of both"),
        ("curves", "error: curves: no rank file (.h5); expected are runs of different seeds"),
    ],
)
def test_names_of_no_run(runs, name, words):
    assert fail(main, runs, name, RANKS[0]).startswith(words)


def test_metrics_without_ranks_of_the_same_run(project):
    metrics = project / "metrics"
    for name, words in (
        ("vse.json", "vse.json: dvc.yaml has no rank file for it, only for metrics/vse.json"),
        ("metrics/scan.json", "model 'scan': stage evaluate of dvc.yaml has cca, vse"),
        ("metrics/cca.json", "metrics/cca.json: was not written with ranks/cca.h5"),
    ):
        shutil.copyfile(metrics / "vse.json", project / name)
        assert words in fail(main, project, name, RANKS[0])
    (project / RANKS[0]).unlink()
    error = fail(main, project, "metrics/cca.json", RANKS[1])
    assert "ranks/cca.h5: no such file, the ranks of metrics/cca.json\nget it with: dvc" in error


def test_revisions_and_experiments_out_of_the_cache(project, monkeypatch):
    """main has a weak and a strong model; the experiment makes the weak one as strong, and the
    workspace another one of it."""
    monkeypatch.chdir(project)
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "test")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "test@example.org")
    git("init", "--quiet", "--initial-branch=main")
    change_params(project)
    (project / ".gitignore").write_text("/ranks\n/scores\n")
    with Repo.init() as repository:
        repository.commit(force=True)
        git("add", "--all")
        git("commit", "--quiet", "--message", "first")
        put_model(project, "cca", made_scores(STRONG), csls=True)
        repository.commit(force=True)
        repository.experiments.save(name="as-strong")
    (project / RANKS[0]).unlink()  # revisions must not look at the workspace
    put_model(project / "other", "cca", made_scores(0.3))

    weak_and_strong = compare(project, "main:cca", "HEAD:vse")
    assert "A: main:cca, naive" in weak_and_strong
    assert "B is better in rsum" in weak_and_strong
    by_file = compare(project, "main:cca", RANKS[1])
    assert by_file.splitlines()[2:] == weak_and_strong.splitlines()[2:]
    assert "B is better in rsum" in compare(project, "HEAD", "as-strong", "--model", "cca")
    error = fail(main, project, "HEAD:cca,main:cca", "HEAD:vse")
    assert error.startswith("error: HEAD:cca,main:cca: seed 0, seed 0; expected are runs of diff")
    assert "all differences are zero" in compare(project, "as-strong:cca", "HEAD", "--model", "vse")

    shutil.copy(project / "other/scores/cca.h5", project / "scores")
    others = ("--with", "ranking=main:cca", "--with", "instance=as-strong:cca")
    chosen = ("--only", "separation")
    done = run_command(analyse, "cca", "--output", "a", *chosen, *others)
    assert done.returncode == 0, done.stderr
    found = json.loads((project / "a/separation.json").read_text())
    for label, signal in (("cca", 0.3), ("ranking", WEAK), ("instance", STRONG)):
        split = made_scores(signal)
        expected = separation(split.scores, split.image_groups, split.caption_groups)
        assert found[label]["overlap"] == expected.overlap

    def refused(*arguments):
        return fail(main, project, *arguments, "HEAD:vse")

    assert "nowhere:vse: unknown Git revision 'nowhere'" in refused("nowhere:vse")
    absent = refused("HEAD:scan")
    assert "HEAD:scan: model 'scan': stage evaluate of dvc.yaml has cca, vse" in absent
    error = refused("HEAD:vse", "--criterion", "dual_softmax")
    assert error.startswith("error: HEAD:vse: vse.h5: no ranks under criterion 'dual_softmax'")
    shutil.rmtree(project / ".dvc/cache")
    error = refused("HEAD:cca")
    assert "HEAD:cca: ranks/cca.h5: not in that revision or not in DVC's cache\nget it" in error
