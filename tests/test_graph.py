"""The whole graph as a user runs it, in a fresh clone on a tiny world: `dvc repro`, `dvc exp run`.

The tests of this file share one clone and run in order; each leaves it as it found it.
"""

import json
import os
import re
import shlex
import shutil
import sys
from contextlib import chdir, contextmanager
from pathlib import Path

import nbformat
import networkx
import numpy as np
import pytest
import torch
from clone import PLAIN_WORLD, ROOT, Clone
from commands import run_command, succeed
from document_commands import MARKED, commands_of, stand_ins
from dvc.repo import Repo
from nbclient import NotebookClient
from rankings import beyond_chance, rsum_of
from ruamel.yaml import YAML
from warm_python import warm_python

from models.ranking import LOSSES
from pipeline.evaluation.score_file import read_scores
from pipeline.features.checkpoint import read_checkpoint, write_checkpoint
from pipeline.runtime.graph import stage_options
from pipeline.runtime.recipes import parse_settings, with_recipe
from pipeline.runtime.yaml_text import read_yaml
from stages.params import find_problems
from stages.score import main as score_stage
from vse_workbench.commands import vse

# the file's own phases, the first with a higher rate, a few steps an epoch and the ranking, too
PHASES = read_yaml(ROOT / "params.yaml")["dual_path"]["phases"]
PHASES[0] |= {"epochs": 20, "lr": 0.01, "stop_below": 0.0}
PHASES[0]["weights"]["ranking"] = 1.0
PHASES[1] |= {"epochs": 1, "lr": 0.0003}
EPOCHS = {"epochs": 2, "batch_size": 32, "lr": 0.005}
PHASED = {"epochs": {"matching": 1, "recurrent": 1, "all": 1}}
PHASED |= {"batch_size": 16, "lr": 0.01, "lr_step": 20}
SAMPLED = {"epochs": 1, "images_per_epoch": None, "lr": 0.003, "warmup": 2, "sampled": 16}
TINY = {
    "runtime": {"threads": 1},
    "shapes": {"train": 200, "val": 24, "test": 24, "image_size": 64, "near_duplicates": 0.0},
    "vocabulary": {"dim": 16, "epochs": 1},
    "detector": {"channels": 16, "hidden": 64, "proposals": 16}
    | {"anchors": [[16.0], [24.0], [32.0]], "training": SAMPLED},
    "image_features": {"size": 64, "batch_size": 16, "workers": 0, "weights": "random"},
    "regions": {"boxes": 3, "workers": 0},
    "sentences": {"fisher": {"centres": 4, "ica": 8, "pca": 32}},
    "vse": {"dim": 32, "hidden": 32, "word_dim": 16, "training": EPOCHS},
    "two_branch": {"dim": 32, "hidden": 64, "dropout": 0.0, "training": EPOCHS | {"lr": 0.003}},
    "cca": {"dim": 8, "regularisation": 0.1},  # 200 images in 896 dimensions
    "dual_path": {"dim": 64, "hidden": 64, "dropout": 0.0, "margin": 0.5, "slots": 12}
    | {"word_dim": 16, "text_width": 8, "text_pool": "max", "resize": 64, "crop": 56}
    | {"phases": PHASES, "training": {"batch_size": 50, "lr_step": 42, "workers": 0}},
    "scan": {"dim": 32, "word_dim": 16, "training": EPOCHS | {"batch_size": 16, "lr_step": 20}},
    "vse_infinity": {"dim": 32, "word_dim": 16, "training": EPOCHS},
    "dp_rnn": {"dim": 16, "word_dim": 16, "candidates": 3, "training": PHASED},
    "phrases": {"features": {"workers": 0}},
    "phrase_two_branch": {"dim": 32, "hidden": 64, "training": {"epochs": 2}}
    | {"mining": {"epochs": 1, "sampled": 3}},
    "phrase_cca": {"dim": 16},
    "scoring": {"shortlist": 8},
    "evaluation": {"bootstrap": 50},
}
MODELS = ["cca", "dp_rnn", "dual_path", "scan", "two_branch", "vse", "vse_infinity"]
TRAINED = [model for model in MODELS if model != "cca"]
ATTENDING = ["dp_rnn", "scan"]
PHRASE_MODELS = ["phrase_cca", "phrase_two_branch"]
AVERAGE = "scan_dp_rnn"
STAGES = ["train", "score", "evaluate"]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
LAST = {"compare", "tabulate_plots"}  # they read the files of all that is evaluated
PHRASE_STAGES = ["train_phrases", "evaluate_phrases"]
AVERAGED = {f"average_scores@{AVERAGE}", f"evaluate_average@{AVERAGE}"}
RERANKED = {"evaluate_reranked@vse_scan"}
MEASURES = {"r1", "r5", "r10", "medr", "meanr", "mapr"}


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """After `dvc repro`, all of it committed; its stages do not load libraries each by itself.

    `.ci/run` names a folder by KEPT_RUN, where `make test` leaves its run for `make test-slow`.
    """
    folder = tmp_path_factory.mktemp("clone") / "workbench"
    kept = Path(os.environ.get("KEPT_RUN", folder.parent / "none"))
    with warm_python(tmp_path_factory.mktemp("warm") / "bin") as programs:
        if kept.is_dir():
            clone = Clone(folder, kept)
            clone.path.insert(0, str(programs))
        else:
            clone = begun_in(folder)
            clone.path.insert(0, str(programs))
            (folder / ".git/said").write_text(clone.run("dvc", "repro"))
            clone.commit("first run")
            if "KEPT_RUN" in os.environ:
                shutil.copytree(folder, kept, symlinks=True)
        said = (folder / ".git/said").read_text()
        clone.commands = [line[2:] for line in said.splitlines() if line.startswith("> ")]
        yield clone


def begun_in(folder):
    """A clone with a tiny world, nothing of which has run."""
    clone = Clone(folder)
    world = folder / "data/raw/shapes/world.yaml"
    values = read_yaml(world) | PLAIN_WORLD
    with open(world, "w", encoding="utf-8") as file:
        YAML(typ="safe", pure=True).dump(values, file)
    write_params(clone, TINY)
    (folder / "dvc.lock").unlink()  # of other runs; DVC rewrites all of it after each stage
    clone.commit("tiny world")
    return clone


@pytest.fixture(scope="module")
def first(clone):
    return outputs(clone), lock(clone)


def write_params(clone, changes):
    params = clone.folder / "params.yaml"
    with chdir(clone.folder):
        params.write_text(with_recipe(params, read_yaml(params), changes, find_problems)[0])


def outputs(clone):
    stages = [stage for name, stage in lock(clone).items() if name != "check_params"]
    written = [clone.folder / out["path"] for stage in stages for out in stage["outs"]]
    files = [file for path in written for file in (path, *path.rglob("*")) if file.is_file()]
    return {file.relative_to(clone.folder).as_posix(): file.read_bytes() for file in files}


def lock(clone):
    return read_yaml(clone.folder / "dvc.lock")["stages"]


def ran(output):
    return [
        line.split("'")[1]
        for line in output.splitlines()
        if line.startswith("Running stage '") and line.endswith(":")
    ]


def would_run(clone, setting):
    """Names of the stages that a changed key re-runs: those that read it and all behind them."""
    before = (clone.folder / "params.yaml").read_bytes()
    try:
        write_params(clone, parse_settings((setting,)))
        with chdir(clone.folder), Repo() as repo:
            readers, graph = set(repo.status()), repo.index.graph
            behind = {
                follower.addressing
                for stage in graph
                if stage.addressing in readers - {"check_params"}
                for follower in networkx.ancestors(graph, stage)  # edges lead to what is read
            }
    finally:
        (clone.folder / "params.yaml").write_bytes(before)
    return readers | behind


def stages_of(models, *names):
    return {f"{name}@{model}" for name in names for model in models}


def test_repro_makes_every_output(clone, first):
    assert all(first[0].values())
    table = (clone.folder / "report/compare.md").read_text()
    for model in [*MODELS, AVERAGE]:
        metrics = json.loads((clone.folder / f"metrics/{model}.json").read_text())
        said = {"dp_rnn": {"shortlist"}, AVERAGE: {"shortlist"}}
        said |= {"scan": set(), "vse_infinity": set()}
        own = said.get(model, {"features"})
        assert set(metrics) == {"naive", "inverted_softmax", "protocol", "split"} | own
        more = {"dp_rnn": {"in_shortlist"}, "scan": set(), "vse_infinity": set(), AVERAGE: set()}
        more = more.get(model, {"correlation"})
        assert set(metrics["naive"]) == {"i2t", "t2i", "rsum", "hubs", "separation"} | more
        assert metrics["inverted_softmax"]["transductive"] is True
        for direction in ("i2t", "t2i"):
            assert set(metrics["naive"][direction]) == MEASURES
        assert f"| {model} " in table
    for model in PHRASE_MODELS:
        metrics = json.loads((clone.folder / f"metrics/{model}.json").read_text())
        figures, bound = metrics["naive"]["phrases"], metrics["upper_bound"]
        assert 0 < figures["r1"] < figures["r5"] <= figures["r10"] <= bound
        assert set(metrics["types"]) == {"object", "several", "relation"}
        line = next(line for line in table.splitlines() if line.startswith(f"| {model} "))
        assert f"{bound:.1f}" in line
    splits = [read_scores(clone.folder / f"data/scores/{name}.h5", "test") for name in ATTENDING]
    reranked = json.loads((clone.folder / "metrics/vse_scan.json").read_text())
    assert reranked.keys() == {"naive", "protocol", "split", "rerank"}
    assert "| vse_scan " in table
    averaged = read_scores(clone.folder / f"data/scores/{AVERAGE}.h5", "test").scores
    np.testing.assert_allclose(averaged, sum(s.scores for s in splits) / 2, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("model", MODELS)
def test_a_trained_model_passes_where_an_untrained_one_fails(clone, model, tmp_path):
    """The same network with the entries of each weight shuffled has learnt nothing."""
    trained = read_scores(clone.folder / f"data/scores/{model}.h5", "test")
    needed = beyond_chance(trained)
    assert rsum_of(trained) > needed
    checkpoint = read_checkpoint(clone.folder / f"data/checkpoints/{model}.safetensors", model)
    weights = shuffled(checkpoint.weights)
    write_checkpoint(tmp_path / "weights.safetensors", weights, checkpoint.description)
    options = stage_options("score", model, clone.folder / "dvc.yaml")
    options |= {"checkpoint": tmp_path / "weights.safetensors", "output": tmp_path / "s.h5"}
    pairs = (word for name, value in options.items() for word in (f"--{name}", value))
    succeed(score_stage, clone.folder, model, *pairs)
    assert rsum_of(read_scores(tmp_path / "s.h5", "test")) < needed


def shuffled(weights):
    random = torch.Generator().manual_seed(0)
    return {
        name: value.flatten()[torch.randperm(value.numel(), generator=random)].view(value.shape)
        for name, value in weights.items()
    }


def test_graph_leaves_git_clean(clone):
    assert clone.run("git", "status", "--porcelain") == ""


def test_dvc_draws_every_picture_by_name(clone, first):
    """As VS Code asks for it: templates filled in, with a title and both axes."""
    shown = json.loads(clone.run("dvc", "plots", "diff", "--json", "--out", "plots_of_test"))
    shutil.rmtree(clone.folder / "plots_of_test", ignore_errors=True)
    assert not shown.get("errors")
    tables = {name for name in first[0] if name.endswith(".tsv")} - {"data/corpus/rejects.tsv"}
    assert set(shown["data"]) == tables | {"detector"}
    for name, (picture, *_) in shown["data"].items():
        content = picture["content"]
        assert content["data"]["values"], name
        assert content["title"], name
        encoding = content.get("spec", content)["encoding"]
        assert encoding["x"]["title"], name
        assert encoding["y"]["title"], name
        fields = {encoding[axis]["field"] for axis in "xy"}
        assert fields <= set(content["data"]["values"][0]), name


@pytest.mark.slow
def test_outputs_travel_through_a_remote_and_weights_by_their_name(clone, first, tmp_path):
    clone.run("dvc", "remote", "add", "--local", "--default", "store", str(tmp_path / "store"))
    clone.run("dvc", "push")
    names = read_yaml(clone.folder / "dvc.yaml")["artifacts"]
    made = {name for name in first[0] if name.endswith(".safetensors")}
    assert {artifact["path"] for artifact in names.values()} == made
    assert all(artifact["type"] == "model" and artifact["desc"] for artifact in names.values())
    clone.run("git", "tag", "--annotate", "--message", "first", "dp-rnn@v1.0.0")
    got = tmp_path / "got.safetensors"
    rev = ["--rev", "v1.0.0", "--out", str(got)]
    clone.run("dvc", "artifacts", "get", str(clone.folder), "dp-rnn", *rev)
    assert got.read_bytes() == first[0]["data/checkpoints/dp_rnn.safetensors"]
    clone.run("git", "tag", "--delete", "dp-rnn@v1.0.0")
    shutil.rmtree(clone.folder / ".dvc/cache")
    for output in ("scores", "checkpoints", "corpus", "vocabulary", "features"):
        shutil.rmtree(clone.folder / "data" / output)
    clone.run("dvc", "pull")
    assert outputs(clone) == first[0]
    assert "Data and pipelines are up to date." in clone.run("dvc", "status")
    clone.run("dvc", "remote", "remove", "--local", "store")


def test_another_size_does_not_bring_back_the_features_of_the_first(clone, first):
    """DVC's run cache finds an earlier run whatever the values of keys called `size` are."""
    write_params(clone, parse_settings(("image_features.size=48",)))
    assert ran(clone.run("dvc", "repro", "extract_image_features"))[-1] == "extract_image_features"
    clone.run("git", "checkout", ".")
    clone.run("dvc", "checkout")
    assert ran(clone.run("dvc", "repro")) == []


def test_wrong_values_and_wrong_code_fail_at_once_and_lose_nothing(clone, first):
    said = clone.run("dvc", "exp", "run", "-S", "loss=bogus", "-S", "+los=1", check=False)
    assert f"loss = 'bogus': allowed are {', '.join(LOSSES)}" in said
    assert "los = 1: unknown key; did you mean loss?" in said
    assert "touch params.yaml && git checkout params.yaml" in said
    assert "Traceback" not in said
    assert ran(said) == ["check_params"]
    assert outputs(clone) == first[0]
    (clone.folder / "params.yaml").touch()
    clone.run("git", "checkout", "params.yaml")

    file = "models/vse.py"
    before = (clone.folder / file).read_text()
    with rewritten(clone, {file: before + "def broken(:\n"}):
        said = clone.run("dvc", "repro", check=False)
    assert f"error: {file}, line {len(before.splitlines()) + 1}: " in said
    assert "Traceback" not in said
    assert ran(said) == ["check_params"]
    assert outputs(clone) == first[0]
    assert ran(clone.run("dvc", "repro")) == []  # the lists of code come back from the run cache


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        (
            "sentences.encoding=tfidf",
            {"encode_sentences", "encode_phrases"}
            | stages_of(["cca", "two_branch"], *STAGES)
            | stages_of(PHRASE_MODELS, *PHRASE_STAGES),
        ),
        (
            "scoring.shortlist=4",
            stages_of(["dp_rnn"], "score", "record_attention", "evaluate") | AVERAGED,
        ),
        ("phrases.nms=0.5", stages_of(PHRASE_MODELS, "evaluate_phrases")),
        (f"average_scores.{AVERAGE}.weights=[2,1]", AVERAGED),
        ("rerank.vse_scan.top=3", RERANKED),
    ],
)
def test_a_key_reruns_only_what_reads_it(clone, setting, expected):
    last = {"compare"} if setting.startswith("phrase") else LAST
    assert would_run(clone, setting) == expected | {"check_params"} | last


@pytest.mark.slow
def test_another_loss_retrains_what_reads_it_and_is_compared(clone, first, tmp_path):
    """With it an average that docs/running.md adds, and scores of another program: random ones, in
    a file outside the repository, at chance and below the models. All are taken out again."""
    expected = stages_of(TRAINED, *STAGES) | stages_of(ATTENDING, "record_attention")
    expected |= stages_of(["phrase_two_branch"], *PHRASE_STAGES)
    expected |= {"check_params"} | LAST | AVERAGED | RERANKED
    fitted = {"train@cca", "train_phrases@phrase_cca"}  # in closed form: again, to the same bytes
    table = clone.folder / "report/compare.md"
    split = read_scores(clone.folder / "data/scores/vse.h5", "test")
    scores = np.random.default_rng(0).standard_normal(split.scores.shape)
    (tmp_path / "its").mkdir()
    np.save(tmp_path / "its/its.npy", scores)
    its = stages_of(["its"], "score_external", "evaluate_external")

    mine = "+average_scores.mine={members:[cca,vse,scan_dp_rnn],weights:[1,1,2],normalise:z}"
    settings = (
        "loss=infonce",
        mine,
        f"+external.its={{folder: {tmp_path}/its, scores: its.npy}}",
        "dual_path.phases.0.epochs=4",  # it need not learn much
    )
    changed = [word for each in settings for word in ("-S", each)]
    output = clone.run("dvc", "exp", "run", *changed)
    expected |= fitted
    assert set(ran(output)) == expected | {"average_scores@mine", "evaluate_average@mine"} | its
    assert "| mine " in table.read_text()
    note = re.search("Cannot be told from chance: (.*)", table.read_text())
    assert "its" in note[1].rstrip(".").split(", ")
    assert "no ranking loss of ours: its." in table.read_text()
    assert "metrics/mine.json" in clone.run("dvc", "exp", "show", "--csv")
    difference = clone.run("dvc", "metrics", "diff")
    for metric in ("naive.i2t.r1", "naive.t2i.r10", "naive.rsum"):
        assert metric in difference
    assert "cca.json" not in difference
    for name in (AVERAGE, "mine", "its"):
        assert f"metrics/{name}.json" in difference

    assert ran(clone.run("dvc", "repro")) == []
    np.save(tmp_path / "its/its.npy", -scores)
    assert set(ran(clone.run("dvc", "repro"))) == its | LAST

    clone.run("git", "checkout", ".")
    clone.run("dvc", "checkout")
    for name in ("mine", "its"):
        for left in ("metrics/{}.json", "data/scores/{}.h5", "data/ranks/{}.h5"):
            (clone.folder / left.format(name)).unlink(missing_ok=True)  # dvc checkout may have
    assert ran(clone.run("dvc", "repro")) == []
    assert outputs(clone) == first[0]


@pytest.mark.slow
def test_stages_side_by_side_run_as_one_after_the_other(clone, first):
    """`vse repro` and `dvc repro` after keys of two models: the same stages, the same bytes."""
    settings = parse_settings(("scan.dim=16", "vse.dim=16"))
    programs = ([sys.executable, "-m", "vse_workbench", "repro"], ["dvc", "repro"])
    results = []
    for program in programs:
        write_params(clone, settings)
        said = clone.run(*program)
        results.append((set(ran(re.sub("^.*: Running", "Running", said, flags=re.M))), lock(clone)))
        results[-1] += (outputs(clone),)
        shutil.rmtree(clone.folder / ".dvc/cache/runs")
        clone.run("git", "checkout", ".")
        clone.run("dvc", "checkout")
    assert results[0] == results[1]
    trained = stages_of(["scan", "vse"], *STAGES)
    assert trained | LAST | {"record_attention@scan"} <= results[0][0]
    assert ran(clone.run("dvc", "repro")) == []
    assert outputs(clone) == first[0]


@pytest.mark.slow
def test_a_failure_side_by_side_is_said_once_and_loses_nothing(clone, first):
    """One of two trainings fails: the other ends, nothing behind the failed one begins."""
    write_params(clone, parse_settings(("two_branch.dim=16", "cca.dim=4")))
    broken = (clone.folder / "models/cca.py").read_text().replace("def fit", "def fitted", 1)
    with rewritten(clone, {"models/cca.py": broken}):
        said = clone.run(sys.executable, "-m", "vse_workbench", "repro", check=False)
    assert said.splitlines()[-2].startswith("error: stage train@cca failed, as said above")
    assert "train@two_branch: Running stage 'train@two_branch':" in said
    assert "Running stage 'score@cca'" not in said
    clone.run("git", "checkout", ".")
    clone.run("dvc", "checkout")
    assert ran(clone.run("dvc", "repro")) == []
    assert outputs(clone) == first[0]


@pytest.mark.slow
def test_the_commands_of_the_documents_run(clone):
    """Verbatim, in their order, but for those that are marked with a reason."""
    commands = commands_of(DOCUMENTS)
    left = [start for start in MARKED if not any(c.line.startswith(start) for c in commands)]
    assert not left, f"marked in document_commands.py, and in no document: {left}"
    values, failed = stand_ins(clone.folder), []
    params = (clone.folder / "params.yaml").read_bytes()
    try:
        for command in [command for command in commands if not command.reason]:
            words = [values.get(word, word) for word in command.words]
            if words[0] != "vse":
                clone.run(*words)
                continue
            done = run_command(vse, *words[1:], folder=clone.folder)
            (clone.folder / "params.yaml").write_bytes(params)  # a recipe replaces it
            failed += [f"{command.document}: {command.line}\n{done.stderr}"] * bool(done.returncode)
    finally:
        clone.run("git", "checkout", "--quiet", ".")
        clone.run("git", "clean", "--force", "-d", "--quiet")
        for name in ("mine", "my_clip"):
            (clone.folder / f"data/scores/{name}.h5").unlink(missing_ok=True)
    assert not failed, "\n".join(failed)


@pytest.mark.slow
def test_the_notebook_runs(clone, monkeypatch):
    """Every cell, its experiment too, which leaves the folder as it is."""
    monkeypatch.setenv("PATH", os.pathsep.join(clone.path))
    monkeypatch.setenv("PYTHONPATH", str(clone.folder))
    notebook = nbformat.read(clone.folder / "docs/tour.ipynb", as_version=4)
    for cell in notebook.cells:  # the tiny world has fewer test images
        cell["source"] = cell["source"].replace("test_00061.jpg#2", "test_00000.jpg#0")
    place = {"metadata": {"path": str(clone.folder / "docs")}}
    NotebookClient(notebook, timeout=300, resources=place).execute()
    made = [
        set(output.data)
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        if "data" in output
    ]
    assert sum("image/png" in kinds for kinds in made) == 7
    assert sum("text/html" in kinds for kinds in made) == 5  # tables
    assert clone.run("git", "status", "--porcelain") == ""
    assert "tour" not in clone.run("dvc", "exp", "list", "--name-only")


CODE, LISTS = "\nEDITED = True\n", "data/.checks/code"
EVALUATED = stages_of(MODELS, "evaluate") | {f"evaluate_average@{AVERAGE}", *RERANKED}
# Edits as file, what stands there, what takes its place ("" and a text: added at the end), and
# the stages that DVC then runs again; those behind them follow where their outputs change.
STYLE = "pipeline/report/templates/style.css"
EDITS = {
    "a comment": ("pipeline/features/hdf5.py", "", "\n# of a reader\n", set()),
    "a docstring": ("models/two_branch.py", '"""', '"""New: ', set()),
    "an error": ("pipeline/features/weights.py", "}: no such {", "}: there is no {", set()),
    "a style": (STYLE, "", "\np {}\n", {"compare"}),
    "a method for pictures": (
        "models/scan.py",
        "        own = by_words[",
        "        edited = True\n        own = by_words[",
        {"record_attention@scan"},
    ),
    "a page of the server": ("vse_workbench/server/static/style.css", "", "\np {}\n", set()),
}
LOSS = stages_of(MODELS, "train") | stages_of(PHRASE_MODELS, "train_phrases")
OF_CODE = {
    "stages/common.py": set(),  # how stages are run
    "models/losses/infonce.py": set(),  # a loss that is not chosen
    "models/losses/sum_margin.py": LOSS,
    "models/vse.py": stages_of(["vse"], "train", "score"),
    "vse_workbench/search/embedder.py": set(),  # of queries
    "models/cca.py": stages_of(["cca"], "train", "score")
    | stages_of(["phrase_cca"], *PHRASE_STAGES),
    "pipeline/corpus/readers/coco_captions.py": set(),  # a reader that is not chosen
    "pipeline/corpus/readers/shapes/scenes.py": {"prepare_corpus", "prepare_phrases"},
    "pipeline/evaluation/criteria/inverted_softmax.py": EVALUATED,
    "pipeline/evaluation/external.py": set(),
    "pipeline/evaluation/findings.py": EVALUATED | LAST,
    "pipeline/features/statistics/kmeans.py": {"cluster_pseudo_classes"},
    "pipeline/report/page.py": {"compare"},
    "vse_workbench/search/searcher.py": set(),
}
EDITS |= {file: (file, "", CODE, stages) for file, stages in OF_CODE.items()}
# New files as copies of others, with words replaced.
NEW = {
    "a loss": ("models/losses/mine.py", "models/losses/max_margin.py", set()),
    "a reader": (
        "pipeline/corpus/readers/mine.py",
        "pipeline/corpus/readers/karpathy_json.py",
        set(),
    ),
    "a metric": (
        "pipeline/evaluation/metrics/mine.py",
        "pipeline/evaluation/metrics/average_precision.py",
        EVALUATED | LAST,
    ),
}


def text_of_edit(clone, file, old, new):
    before = (clone.folder / file).read_text()
    assert old in before
    return before.replace(old, new, 1) if old else before + new


def text_of_copy(clone, source):
    text = (clone.folder / source).read_text()
    return text.replace("class MaxMargin", "class Mine").replace('"mapr"', '"mine"')


@contextmanager
def rewritten(clone, texts):
    """Files of the clone with other texts, by their names; afterwards as they were."""
    paths = {clone.folder / name: text for name, text in texts.items()}
    before = {path: path.read_text() for path in paths if path.exists()}
    try:
        for path, text in paths.items():
            path.write_text(text)
        yield
    finally:
        for path in paths:
            path.unlink()
        for path, text in before.items():
            path.write_text(text)


@pytest.fixture(scope="module")
def edited(clone):
    """All edits at once: the stages by the file that changed their list, and what DVC would run."""
    texts = {edit[0]: text_of_edit(clone, *edit[:3]) for edit in EDITS.values()}
    texts |= {name: text_of_copy(clone, source) for name, source, _ in NEW.values()}
    assert len(texts) == len(EDITS) + len(NEW)
    check = ("python", "-m", "stages.check_params", "--output", LISTS)
    before, stages = code_lists(clone), {}
    with rewritten(clone, texts):
        clone.run(*check)
        with chdir(clone.folder), Repo() as repo:
            would_run = set(repo.status()) - {"check_params"}
            for name, lines in code_lists(clone).items():
                path = f"{LISTS}/{name}"
                readers = {
                    stage.addressing
                    for stage in repo.index.stages
                    if path in (dep.def_path for dep in stage.deps)
                }
                for line in lines ^ before[name]:
                    stages.setdefault(line.split()[0], set()).update(readers)
    clone.run(*check)
    assert code_lists(clone) == before
    return stages, would_run


def code_lists(clone):
    files = (clone.folder / LISTS).iterdir()
    return {file.name: set(file.read_text().splitlines()) for file in files}


@pytest.mark.parametrize("edit", EDITS | NEW)
def test_an_edit_or_a_new_file_re_runs_what_loads_it_and_nothing_else(edited, edit):
    file, *_, expected = (EDITS | NEW)[edit]
    assert edited[0].get(file, set()) == expected


def test_dvc_re_runs_the_stages_whose_lists_have_changed(edited):
    assert edited[1] == set.union(*edited[0].values())


COLD = tuple(
    f"python -m stages.{start} "
    for start in ("build_vocabulary", "train two_branch", "score scan", "evaluate vse", "compare")
)


@pytest.mark.slow
def test_repeating_everything_gives_the_same_bytes(clone, first):
    """All that DVC keeps of a run, by its own digests; the commands alone, as it ran them, some of
    them as programs of their own, which load their libraries themselves."""
    with chdir(clone.folder), Repo() as repo, repo.lock:
        for stage in repo.index.stages:
            stage.remove_outs(force=True)
    warm, *cold = clone.path
    for command in clone.commands:
        clone.path[:] = cold if command.startswith(COLD) else [warm, *cold]
        clone.run(*shlex.split(command))
    clone.path[:] = [warm, *cold]
    assert outputs(clone) == first[0]
    assert "Data and pipelines are up to date." in clone.run("dvc", "status")
