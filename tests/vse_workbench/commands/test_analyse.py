"""`vse analyse`: a trained model's files in, tables and pictures out."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from click.testing import CliRunner
from report_world import made_scores
from tiny_inputs import (
    COLOURS,
    DIM,
    DUAL_PATH,
    NOUNS,
    PATHS,
    ROOT,
    write_coloured_images,
    write_inputs,
    write_params,
    write_vocabulary,
)

from models.backbone.build import build_network
from models.backbone.file import write_network
from models.backbone.image_cnn import open_network
from models.backbone.network import weights_digest
from models.dual_path.build import build
from models.vse.network import VSE
from pipeline.corpus.tables import load_captions, load_images
from pipeline.evaluation.separation import separation
from pipeline.inputs.files import Inputs
from pipeline.inputs.words import WordInputs
from pipeline.runtime.graph import stage_paths
from pipeline.scores.file import read_scores, write_scores
from pipeline.storage.checkpoint import Description, write_checkpoint
from pipeline.storage.features import write_features
from stages import score
from stages.params import load_params
from vse_workbench.commands.analyse import main

INPUTS = ("images", "captions", "features", "text", "checkpoint", "output")
SIZES = {"image_dim": DIM, "vocabulary_size": 14, "word_dim": 6, "hidden": 5, "dim": 7}
TABLES = {"separation", "correlations", "words", "word_drops", "curve"}
PICTURES = {"separation", "correlations", "words", "examples", "curve"}


def run(*arguments):
    result = CliRunner().invoke(main, list(map(str, arguments)))
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


@pytest.fixture(scope="module")
def scored(tmp_path_factory):
    """A folder as after `dvc repro`, of drawn weights."""
    folder = tmp_path_factory.mktemp("scored")
    shutil.copy(ROOT / "dvc.yaml", folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        write_inputs(folder)
        files = stage_paths("score", INPUTS, "vse")
        for name, made in (
            ("images", "corpus/images.parquet"),
            ("captions", "corpus/captions.parquet"),
            ("features", "image.h5"),
            ("text", "vocabulary"),
        ):
            files[name].parent.mkdir(parents=True, exist_ok=True)
            (folder / made).rename(files[name])
        draw_weights(files, 0)
        curve = stage_paths("train", ("curve",), "vse")["curve"]
        curve.parent.mkdir(parents=True)
        curve.write_text("epoch\tphase\tloss\tval_rsum\n1\ta\t9\t10\n2\tb\t5\t20\n")
    return folder


def opened(files):
    """What the models here read."""
    names = ("images", "captions", "features", "text")
    return WordInputs(Inputs(**{name: files[name] for name in names}))


def draw_weights(files, seed):
    """A checkpoint of drawn weights and what it scores."""
    torch.manual_seed(seed)
    inputs = opened(files).identity
    description = Description(
        model="vse", architecture=SIZES, params={}, inputs=inputs, epoch=1, val_rsum=1.0
    )
    write_checkpoint(files["checkpoint"], VSE(**SIZES).state_dict(), description)
    arguments = [word for name, path in files.items() for word in (f"--{name}", str(path))]
    assert CliRunner().invoke(score.main, ["vse", *arguments]).exit_code == 0


@pytest.fixture
def folder(scored, tmp_path, monkeypatch):
    shutil.copytree(scored, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_all_analyses_of_a_model(folder):
    result = run("vse", "--output", "analysis/vse")
    assert result.exit_code == 0, result.output
    assert result.stderr.splitlines()[-1].startswith("vse: separation, correlations, words, curve")
    names = {path.name for path in (folder / "analysis/vse").iterdir()}
    expected = {f"{n}.tsv" for n in TABLES} | {f"{n}.png" for n in PICTURES}
    assert names == expected | {"separation.json", "correlations.json"}
    again = {path.name: path.read_bytes() for path in (folder / "analysis/vse").iterdir()}
    assert run("vse", "--output", "analysis/again").exit_code == 0
    assert again == {path.name: path.read_bytes() for path in (folder / "analysis/again").iterdir()}


def test_whole_captions_score_what_the_score_file_says(folder):
    assert run("vse", "--output", "a", "--only", "words").exit_code == 0
    drops = pd.read_csv("a/word_drops.tsv", sep="\t")
    split = read_scores(stage_paths("score", ("output",), "vse")["output"], "test")
    scores = pd.DataFrame(split.scores, split.image_ids, split.caption_ids)
    expected = [
        scores.loc[i, c] for i, c in zip(drops["image_id"], drops["caption_id"], strict=True)
    ]
    np.testing.assert_allclose(drops["score"], expected, atol=1e-5)
    table = load_captions(stage_paths("score", ("captions",), "vse")["captions"])
    tokens = table.set_index("caption_id")["tokens"]
    assert set(drops["caption_id"]) == set(split.caption_ids)
    for caption, rows in drops.groupby("caption_id"):
        assert rows["word"].tolist() == list(tokens[caption])
    assert drops["drop"].abs().max() > 0.01


def test_other_score_files_stand_beside_it(folder):
    files = stage_paths("score", INPUTS, "vse")
    before = folder / "before.h5"
    shutil.copy(files["output"], before)
    draw_weights(files, 1)
    result = run("vse", "--output", "a", "--label", "after", "--with", f"before={before}",
                 "--only", "separation", "--only", "correlations", "--images", 5)  # fmt: skip
    assert result.exit_code == 0, result.output
    separated = json.loads((folder / "a/separation.json").read_text())
    assert list(separated) == ["after", "before"]
    assert separated["after"] != separated["before"]
    table = pd.read_csv("a/correlations.tsv", sep="\t")
    assert list(table.columns[2:]) == ["image features", "after", "before"]
    assert len(table) == 5 * 4 / 2
    split = read_scores(before, "test")
    rows = [split.image_ids.index(name) for name in table.iloc[0, :2]]
    expected = np.corrcoef(split.image_embeddings[rows])[0, 1]
    assert table["before"][0] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("vse", "--with", "before"), "expected LABEL=RUN"),
        (("vse", "--with", "=x.h5"), "expected LABEL=RUN"),
        (("vse", "--with", "vse=x.h5"), "every label once"),
        (("vse", "--with", "a=none.h5"), "none.h5"),
        (("vse", "--with", "a=HEAD"), "'HEAD': neither a score file (.h5) nor REVISION:MODEL"),
        (("vse", "--with", "a=HEAD:vse"), "HEAD:vse: "),
        (("vse", "--split", "train"), "train"),
        (("nothing",), "model 'nothing': stage score of dvc.yaml has"),
    ],
)
def test_what_does_not_fit_is_a_plain_line(folder, arguments, message):
    result = run(*arguments, "--output", "a")
    assert result.exit_code == 1
    assert message in result.stderr
    assert result.stderr.startswith("error: ")
    assert not (folder / "a").exists()


def test_scores_of_other_weights_are_refused(folder):
    files = stage_paths("score", INPUTS, "vse")
    old = files["output"].read_bytes()
    draw_weights(files, 1)
    files["output"].write_bytes(old)
    result = run("vse", "--output", "a", "--only", "words")
    assert result.exit_code == 1
    assert "not made with the weights of the checkpoint" in result.stderr


def test_a_model_without_words_says_what_it_can(folder):
    scores = stage_paths("score", ("output",), "cca")["output"]
    shutil.copy(stage_paths("score", ("output",), "vse")["output"], scores)
    result = run("cca", "--output", "a", "--only", "words")
    assert result.exit_code == 1
    assert "not for cca\nchoose other analyses with --only" in result.stderr
    write_params(folder)
    assert run("cca", "--output", "a", "--only", "separation").exit_code == 0


GRAPH = """
stages:
  score:
    foreach: {dual_path: {}}
    do:
      cmd: cp runs/${key}.h5 data/scores/ && true --output data/scores/${key}.h5
      deps: [runs/dual_path.h5]
      outs: [data/scores/dual_path.h5]
"""


def test_runs_of_revisions_are_separated_beside_it_on_validation(tmp_path, monkeypatch):
    """Three regimes (Zheng et al. 2020, figure 7): a commit, an experiment, and the workspace."""

    def shell(*words):
        subprocess.run(words, check=True, capture_output=True)

    def dvc(*words):
        shell(sys.executable, "-m", "dvc", *words, "--quiet")

    def run_with(signal):
        splits = {"val": made_scores(signal), "test": made_scores(0.0)}
        for folder in ("runs", "data/scores"):
            Path(folder).mkdir(parents=True, exist_ok=True)
        write_scores("runs/dual_path.h5", splits, {"model": "dual_path"})
        dvc("repro")

    monkeypatch.chdir(tmp_path)
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "test")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "test@example.org")
    write_params(tmp_path, **DUAL_PATH)
    Path("dvc.yaml").write_text(GRAPH)
    Path(".gitignore").write_text("/data\n")
    shell("git", "init", "--quiet", "--initial-branch=main")
    dvc("init")
    run_with(0.1)
    shell("git", "add", "--all")
    shell("git", "commit", "--quiet", "--message", "ranking")
    run_with(0.3)
    dvc("exp", "save", "--name", "instance")
    run_with(0.8)
    others = ("--with", "ranking=main:dual_path", "--with", "instance=instance:dual_path")
    chosen = ("--only", "separation", "--split", "val", "--label", "both")
    result = run("dual_path", "--output", "a", *chosen, *others)
    assert result.exit_code == 0, result.output
    found = json.loads(Path("a/separation.json").read_text())
    for label, signal in (("both", 0.8), ("ranking", 0.1), ("instance", 0.3)):
        split = made_scores(signal)
        expected = separation(split.scores, split.image_groups, split.caption_groups)
        assert found[label]["overlap"] == expected.overlap
    message = run("dual_path", "--output", "b", "--with", "x=main:vse").stderr
    assert "main:vse: model 'vse': stage score of dvc.yaml has dual_path" in message


@pytest.fixture(scope="module")
def slotted(tmp_path_factory):
    """The same for a dual path of drawn weights, with images in files and too few slots."""
    folder = tmp_path_factory.mktemp("slotted")
    shutil.copy(ROOT / "dvc.yaml", folder)
    files = stage_paths("score", INPUTS, "dual_path", ROOT / "dvc.yaml")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        write_coloured_images(folder)
        write_vocabulary(folder, [*COLOURS, *NOUNS])  # neither "a" nor "and"
        write_params(folder, **DUAL_PATH)
        move_inputs(folder, files, ("images", "captions", "text"))
        draw_dual_path(files)
    return folder


def move_inputs(folder, files, names):
    for name in names:
        files[name].parent.mkdir(parents=True, exist_ok=True)
        (folder / PATHS[name]).rename(files[name])


def draw_dual_path(files):
    """Features, their network, a checkpoint of drawn weights and its scores."""
    settings = load_params().image_features
    kept = Path("network.safetensors")
    made = build_network(settings, 0, kept)
    ids = load_images(files["images"])["image_id"].tolist()
    attributes = {"model": "resnet18", "layer": "layer1", "params": json.dumps(made.settings)}
    attributes |= {"weights_sha256": weights_digest(made.backbone), "corpus_sha256": "b" * 64}
    features = {"features": np.ones((len(ids), made.width), np.float16)}
    write_features(files["features"], ids, features, attributes)
    write_network(kept, made)
    read = opened(files)
    network = open_network(kept, read.features)
    sizes = read.sizes | network.architecture | {"word_dim": 6}
    sizes |= {"text_cnn": "resnet18", "text_width": 4, "hidden": 8, "dim": 8, "flip": False}
    model = build(**sizes, image_cnn=network.image_cnn)
    description = Description(
        model="dual_path", architecture=sizes | {"slots": 2}, params={},
        inputs=read.identity, epoch=1, val_rsum=1.0,
    )  # fmt: skip
    write_checkpoint(files["checkpoint"], model.state_dict(), description)
    arguments = [word for name, path in files.items() for word in (f"--{name}", str(path))]
    result = CliRunner().invoke(score.main, ["dual_path", *arguments])
    assert result.exit_code == 0, result.output


def test_captions_in_slots_score_what_the_score_file_says(slotted, monkeypatch):
    """Unknown words are no words here, and what lies behind the last slot has no effect."""
    monkeypatch.chdir(slotted)
    assert run("dual_path", "--output", "a", "--only", "words").exit_code == 0
    drops = pd.read_csv("a/word_drops.tsv", sep="\t")
    split = read_scores(stage_paths("score", ("output",), "dual_path")["output"], "test")
    scores = pd.DataFrame(split.scores, split.image_ids, split.caption_ids)
    expected = [
        scores.loc[i, c] for i, c in zip(drops["image_id"], drops["caption_id"], strict=True)
    ]
    np.testing.assert_allclose(drops["score"], expected, atol=1e-5)
    assert set(drops["position"]) == {1, 3, 4}  # of: a, colour, and, colour, noun
    np.testing.assert_allclose(drops.loc[drops["position"] == 4, "drop"], 0, atol=1e-6)
    assert drops.loc[drops["position"] == 1, "drop"].abs().max() > 1e-3
