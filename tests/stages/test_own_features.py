"""Vectors that were made elsewhere, from files to scores, by the stages: what works and what cannot
is said."""

import re
import shutil
from pathlib import Path

import commands
import numpy as np
import pytest
from commands import run_command
from embedding_files import write_vectors
from PIL import Image
from tiny_inputs import IMAGES, WORDS, write_inputs, write_params

from pipeline.corpus.tables import load_captions, load_images
from pipeline.evaluation.score_file import read_scores
from pipeline.features.feature_file import FeatureFile
from pipeline.runtime.graph import stage_paths
from stages import encode_sentences, extract_image_features, score, train
from vse_workbench.commands import search

DIM = 24
SMALL = {"cca__dim": 8, "vse__training__epochs": 2, "two_branch__training__epochs": 2}
MODELS = ["cca", "two_branch", "vse"]
SIDES = ("images", "captions", "features", "text")


def run(command, *arguments):
    done = run_command(command, *arguments)
    assert done.returncode == 0, done.stderr
    return done


def fail(command, *arguments):
    return commands.fail(command, ".", *arguments)


def options(stage, names, item=None):
    found = stage_paths(stage, names, item)
    return [word for name, path in found.items() for word in (f"--{name}", path)]


def own(path, **changes):
    return {"path": str(path), "ids": "ids", "features": "features"} | changes


def put_params(folder, images, captions):
    changes = dict(SMALL)
    if images:
        changes |= {"image_features__source": "file", "image_features__file": own(images)}
    if captions:
        changes |= {"sentences__encoding": "file", "sentences__file": own(captions)}
    write_params(folder, **changes)


def make_features():
    names = ("images", "detector", "output", "network")
    run(extract_image_features.main, *options("extract_image_features", names))
    names = ("captions", "vocabulary", "output", "encoder")
    run(encode_sentences.main, *options("encode_sentences", names))


def train_command(model):
    return [model, *options("train", (*SIDES, "output", "curve"), model)]


def score_command(model):
    return [model, *options("score", (*SIDES, "checkpoint", "output"), model)]


def random_vectors(folder):
    """A space in which captions lie near their image, in files of other orders and types."""
    random = np.random.default_rng(0)
    images = load_images(folder / "data/corpus/images.parquet")["image_id"].tolist()
    table = load_captions(folder / "data/corpus/captions.parquet")
    vectors = random.normal(size=(len(images), DIM))
    near = dict(zip(images, vectors, strict=True))
    words = np.array([near[name] for name in table["image_id"]])
    words = words + 0.3 * random.normal(size=words.shape)
    order = random.permutation(len(images))
    ids = [images[place] for place in order]
    first = write_vectors(folder, ".npy", ids, vectors[order].astype(np.float16))
    captions = table["caption_id"].tolist()[::-1]
    return first, write_vectors(folder, ".parquet", captions, words[::-1].astype(np.float32))


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A folder as before `dvc repro`, with two files of vectors; the repository's dvc.yaml."""
    folder = tmp_path_factory.mktemp("world")
    shutil.copy(train.__file__.replace("stages/train.py", "dvc.yaml"), folder)
    write_inputs(folder)
    (folder / "data/checkpoints").mkdir(parents=True)
    (folder / "data/checkpoints/detector.safetensors").write_bytes(b"not read")
    for name in ("corpus", "vocabulary"):
        (folder / name).rename(folder / "data" / name)
    (folder / "image.h5").unlink()
    random_vectors(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        put_params(folder, "clip.npy", "clip.parquet")
        make_features()
    return folder


@pytest.fixture
def folder(world, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return shutil.copytree(world, tmp_path, dirs_exist_ok=True)


def test_the_folder_of_vsepp_is_read_with_the_captions_of_the_graph(folder):
    """A row for each caption in the order of the corpus, and no ids: the captions say so."""
    images = load_images(Path("data/corpus/images.parquet"))
    captions = load_captions(Path("data/corpus/captions.parquet"))
    vectors = np.random.default_rng(0).normal(size=(len(images), DIM)).astype(np.float32)
    Path("f8k_precomp").mkdir()
    for split, prefix in (("train", "train"), ("val", "dev"), ("test", "test")):
        rows = np.flatnonzero(images["split"] == split)
        part = captions[captions["split"] == split]
        texts = part["text"].tolist()
        times = part.groupby("image_id", sort=False).size().tolist()
        np.save(f"f8k_precomp/{prefix}_ims.npy", np.repeat(vectors[rows], times, 0))
        Path(f"f8k_precomp/{prefix}_caps.txt").write_text("".join(f"{text}\n" for text in texts))
    put_params(folder, "f8k_precomp", "clip.parquet")
    names = ("images", "captions", "detector", "output", "network")
    done = run(extract_image_features.main, *options("extract_image_features", names))
    assert "train_ims.npy: each image stands there up to" in done.stderr
    np.testing.assert_array_equal(FeatureFile(Path("data/features/image.h5")).load(), vectors)


def test_models_train_and_score_on_them(folder):
    for model in MODELS:
        run(train.main, *train_command(model))
        run(score.main, *score_command(model))
        found = read_scores(f"data/scores/{model}.h5", "test")
        assert found.scores.shape[0] == IMAGES["test"]
        if model == "cca":  # the vectors lie in one space, which it finds
            best = np.array(found.image_ids)[found.scores.argmax(0)]
            assert np.mean(best == np.array(found.caption_image_ids)) > 0.8
    check_searches(folder)


def check_searches(folder):
    """Words are known where the model reads words; nothing else can be embedded here."""
    assert run(search.main, WORDS[1], "--model", "vse", "--top", 2).stdout.count("\n") == 2
    for model in ("two_branch", "cca"):
        said = fail(search.main, WORDS[1], "--model", model)
        assert "vectors come from a file (sentences.encoding: file)" in said
        assert "search with an image, or with a model that reads words" in said
    Image.new("RGB", (40, 40)).save("query.png")
    for model in MODELS:
        said = fail(search.main, "--image", "query.png", "--model", model)
        assert "the image features come from a file (image_features.source: file)" in said
        assert "search with a text" in said


def test_the_example_of_the_documents(folder):
    text = (Path(train.__file__).parents[1] / "docs/features.md").read_text()
    (code,) = re.findall(r"## Your own features\n.*?```python\n(.*?)```", text, re.DOTALL)
    exec(code.replace("/data/clip", f"{folder}/clip"), {})
    put_params(folder, "clip_images.npz", "clip_captions.npz")
    make_features()
    assert FeatureFile("data/features/image.h5").shape() == (sum(IMAGES.values()), 512)
    captions = load_captions(folder / "data/corpus/captions.parquet")["caption_id"].tolist()
    assert FeatureFile("data/features/sentences.h5").ids == captions


def test_the_same_bytes_again(folder):
    names = ["data/features/image.h5", "data/features/sentences.h5"]
    names += ["data/checkpoints/image_network.safetensors", "data/features/sentence_encoder.h5"]
    first = [(folder / name).read_bytes() for name in names]
    make_features()
    assert [(folder / name).read_bytes() for name in names] == first


def test_our_settings_with_their_features_are_refused(folder):
    put_params(folder, None, None)
    for model in ("cca", "vse"):
        said = fail(train.main, *train_command(model))
        assert 'image_features.source = "file" (params.yaml: "network")' in said
        assert "dvc repro extract_image_features" in said
    put_params(folder, "clip.npy", None)
    said = fail(train.main, *train_command("cca"))
    assert 'sentences.encoding = "file" (params.yaml: "fisher")' in said
    assert not (folder / "data/checkpoints/cca.safetensors").exists()
