"""Phrases from the files of Flickr30k Entities to metrics and pictures: a miniature, whole."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest
from corpora import ROOT, change_params
from entities_cases import write_entities
from PIL import Image
from pretended_cuda import on_pretended_gpu

from pipeline.features.checkpoint import read_checkpoint
from pipeline.features.feature_file import FeatureFile
from pipeline.phrases.tables import load_phrases

PATHS = {
    "images": "data/corpus/images.parquet",
    "captions": "data/corpus/captions.parquet",
    "boxes": "data/corpus/boxes.parquet",
    "vocabulary": "data/vocabulary",
    "phrases": "data/phrases",
    "proposals": "data/features/proposals.h5",
    "truth": "data/features/phrase_boxes.h5",
    "vectors": "data/features/phrases.h5",
    "detector": "data/checkpoints/detector.safetensors",
    "sentences": "data/features/sentences.h5",
    "encoder": "data/features/sentence_encoder.h5",
}
FILES = ("phrases", "proposals", "truth", "vectors")


def options(*names, **others):
    files = {name: PATHS[name] for name in names} | others
    return [word for name, path in files.items() for word in (f"--{name}", path)]


NETWORK = {"model": "resnet18", "weights": "random", "layers": ["layer1", "layer2"]}
NETWORK |= {"pool": "mean", "short_side": 64, "normalisation": "torchvision"}
TRAINING = {"epochs": 12, "batch_size": 16, "warmup_epochs": 1, "lr": 0.003, "lr_step": 20}
PARAMS = {
    "dataset": "captions_csv",
    "corpus": {"split_files": "entities"},
    "vocabulary": {"dim": 8, "epochs": 1},
    "detector": {
        "weights": "random",
        "channels": 8,
        "hidden": 16,
        "anchors": [[16.0], [28.0]],
        "proposals": 8,
    },
    "sentences": {"encoding": "mean_vector"},
    "phrases": {
        "source": "flickr30k_entities",
        "path": "entities",
        "train_images": None,
        "proposals": {"source": "file", "path": "boxes.txt", "number": 12},
        "features": {"source": "network", "network": NETWORK, "batch_size": 4, "workers": 0},
    },
    "phrase_two_branch": {
        "hidden": 32,
        "dim": 16,
        "dropout": 0.0,
        "training": TRAINING,
        "mining": {"epochs": 2, "sampled": 3},
    },
    "phrase_cca": {"dim": 8, "regularisation": [1000.0, 0.01]},
    "evaluation": {"bootstrap": 50},
}


def write_proposals(folder, truth):
    """The true boxes, a little off, among random ones: pixels from 0, a line each."""
    rng, lines = np.random.default_rng(0), []
    for image, chains in truth.items():
        corners = rng.integers(0, 30, (8, 2))
        rows = [*np.hstack([corners, corners + rng.integers(10, 30, (8, 2))]).tolist()]
        rows += [[b[0], b[1] + 1, b[2], b[3]] for b in chains.values()]
        lines += [f"{image} {' '.join(map(str, row))} 0.5" for row in rows]
    (folder / "boxes.txt").write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("phrases")
    write_proposals(folder, write_entities(folder))
    change_params(folder)
    shutil.copy(ROOT / "dvc.yaml", folder)
    change_params(folder, **PARAMS)
    return folder


@pytest.fixture
def stage(run_stage, folder):
    return lambda name, *words: run_stage(name, *words, cwd=folder).stderr


def test_phrases_are_read_and_proposals_described(stage, folder):
    stage("prepare_corpus", *options(raw=".", output="data/corpus"))
    tables = options("images", "captions", raw=".", output=PATHS["phrases"])
    assert "phrases: train 64, val 16, test 16; 96 boxes" in stage("prepare_phrases", *tables)
    stage("build_vocabulary", *options("captions", output=PATHS["vocabulary"]))
    captions = options("captions", "vocabulary", "encoder", output=PATHS["sentences"])
    stage("encode_sentences", *captions)
    curve = {"output": PATHS["detector"], "curve": "data/curves/detector.tsv"}
    stage("train_detector", *options("images", "boxes", **curve))
    names = ("images", "phrases", "detector", "truth")
    words = ("extract_proposals", *options(*names, output=PATHS["proposals"]))
    # single blocks are there, both together are not
    assert "R@12 upper bound train 75.0, val 75.0, test 75.0" in stage(*words)
    files = [folder / PATHS[name] for name in ("proposals", "truth")]
    first = [file.read_bytes() for file in files]
    with on_pretended_gpu(folder):
        stage(*words)
    assert [file.read_bytes() for file in files] == first
    proposals, truth = map(FeatureFile, files)
    assert proposals.shape() == (24, 12, 64 + 128)
    assert (proposals.load("counts") == 10).all()
    assert truth.shape() == (32, 64 + 128)  # two boxes of each training image
    # without a limit, files say nothing of one, as before there was one
    assert json.loads(proposals.attributes["params"])["features"]["network"] == NETWORK
    names = ("phrases", "sentences", "encoder")
    stage("encode_phrases", *options(*names, output=PATHS["vectors"]))
    texts = set(load_phrases(folder / PATHS["phrases"]).phrases["text"])
    assert set(FeatureFile(folder / PATHS["vectors"]).ids) == texts


@pytest.mark.parametrize("model", ["phrase_cca", "phrase_two_branch"])
def test_models_are_trained_and_measured(stage, folder, model):
    checkpoint, curve = f"data/checkpoints/{model}.safetensors", f"data/curves/{model}.tsv"
    words = ("train_phrases", model, *options(*FILES, output=checkpoint, curve=curve))
    stage(*words)
    first = (folder / checkpoint).read_bytes()
    with on_pretended_gpu(folder):
        stage(*words)
    assert (folder / checkpoint).read_bytes() == first
    assert not list((folder / "data/.work").glob("train-*"))
    outputs = {"metrics": f"metrics/{model}.json", "output": f"data/phrase_ranks/{model}.h5"}
    stage("evaluate_phrases", model, *options(*FILES, checkpoint=checkpoint, **outputs))
    found = json.loads((folder / f"metrics/{model}.json").read_text())
    assert found["upper_bound"] == 75.0
    assert set(found["types"]) == {"clothing", "other", "people"}
    figures = found["naive"]["phrases"]
    assert 20 < figures["r1"] <= figures["r5"] <= figures["r10"] <= 75
    ranks = FeatureFile(folder / f"data/phrase_ranks/{model}.h5")
    assert len(ranks.ids) == 16
    assert 100 * (ranks.load("ranks") == 1).mean() == pytest.approx(figures["r1"])


def test_the_curve_goes_on_in_fine_tuning(folder):
    curve = pd.read_csv(folder / "data/curves/phrase_two_branch.tsv", sep="\t")
    assert curve["phase"].tolist() == ["sum_margin"] * 12 + ["mining"] * 2
    assert curve["epoch"].tolist() == [*range(1, 15)]
    path = folder / "data/checkpoints/phrase_two_branch.safetensors"
    assert read_checkpoint(path, "phrase_two_branch").description.epoch in (13, 14)


def test_a_phrase_is_drawn_into_an_image(run_vse, folder):
    image = sorted((folder / "images").glob("*.jpg"))[-1]
    words = ("localise", "the red block", "--image", image.name, "--output", "out.png")
    done = run_vse(*words, "--model", "phrase_cca", "--top", "2", cwd=folder)
    head, *rows = (line.split() for line in done.stdout.splitlines())
    assert head[:6] == ["cosine", "left", "top", "right", "bottom", "colour"]
    width, height = Image.open(folder / "images" / image.name).size
    cosines = [float(row[0]) for row in rows]
    assert 1 >= cosines[0] >= cosines[1] >= -1
    for left, top, right, bottom in (map(int, row[1:5]) for row in rows):
        assert 0 <= left < right <= width
        assert 0 <= top < bottom <= height
    assert "best 2 of 8 proposals" in done.stderr
    assert "unknown words, left out: the" in done.stderr
    assert Image.open(folder / "out.png").size == (640, 427)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("zebra", "--image", "1000001.jpg", "--output", "o.png"), "no word of the query"),
        (("block", "--image", "nowhere.jpg", "--output", "o.png"), "neither an image of"),
        (("!", "--image", "1000001.jpg", "--output", "o.png"), "has no words"),
    ],
)
def test_what_cannot_be_drawn_is_said(run_vse, folder, words, message):
    done = run_vse("localise", *words, cwd=folder, check=False)
    assert done.returncode == 1
    assert message in done.stderr


def test_a_corpus_without_phrases_has_empty_artefacts(run_stage, folder, tmp_path):
    """All stages run, and say so: a dataset without phrases needs no other graph."""
    for name in ("dvc.yaml", "data", "images", "results.csv", "entities"):
        (tmp_path / name).symlink_to(folder / name)
    shutil.copy(folder / "params.yaml", tmp_path)
    proposals = {"source": "detector", "path": None}
    change_params(tmp_path, phrases={"source": "none", "proposals": proposals})

    def stage(name, *words):
        return run_stage(name, *words, cwd=tmp_path).stderr

    empty = {name: PATHS[name].replace("data/", "none/") for name in FILES}
    tables = options("images", "captions", raw=".", output=empty["phrases"])
    assert "has no phrases with boxes" in stage("prepare_phrases", *tables)
    own = {"phrases": empty["phrases"], "truth": empty["truth"], "output": empty["proposals"]}
    stage("extract_proposals", *options("images", detector="none/x", **own))
    own = {"phrases": empty["phrases"], "output": empty["vectors"]}
    stage("encode_phrases", *options("sentences", "encoder", **own))
    stage("train_phrases", "phrase_cca", *options(**empty, output="none/c", curve="none/c.tsv"))
    files = {"checkpoint": "none/c", "metrics": "none/m.json", "output": "none/r.h5"}
    told = stage("evaluate_phrases", "phrase_cca", *options(**empty, **files))
    assert "the corpus has no phrases" in told
    assert json.loads((tmp_path / "none/m.json").read_text()) == {"phrases": 0}
