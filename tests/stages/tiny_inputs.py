"""A few images with features, a vocabulary and sentence vectors, as the stages before training
leave them."""

import json
from contextlib import chdir
from pathlib import Path

import numpy as np
import pandas as pd
from click.testing import CliRunner
from ruamel.yaml import YAML

from pipeline.corpus import Corpus, load_captions
from pipeline.feature_store import write_features

ROOT = Path(__file__).resolve().parents[2]
IMAGES = {"train": 24, "val": 8, "test": 9}
WORDS = [f"w{i}" for i in range(12)]
DIM = 10
PATHS = {
    "images": "corpus/images.parquet",
    "captions": "corpus/captions.parquet",
    "features": "image.h5",
    "text": "vocabulary",
}
SENTENCES = "sentences.h5"


def write_inputs(folder: Path) -> None:
    """Everything `stages.train` and `stages.score` read: images show 4 of 12 things, captions name
    two to four of them; captions per image vary."""
    generator = np.random.default_rng(0)
    things = generator.normal(size=(len(WORDS), DIM))
    images, captions, features = [], [], []
    for split, count in IMAGES.items():
        for number in range(count):
            name = f"{split}{number}"
            shown = generator.choice(len(WORDS), 4, replace=False)
            features.append(things[shown].sum(0))
            images.append((name, f"{name}.jpg", split, name, 32, 32, "0" * 64))
            for caption in range(generator.integers(1, 5)):
                words = [WORDS[i] for i in generator.choice(shown, generator.integers(2, 5), False)]
                captions.append((f"{name}#{caption}", name, split, " ".join(words), words))
    write_corpus(folder, images, captions)
    ids = [row[0] for row in images]
    write_image_features(folder, ids, np.array(features, np.float16))
    write_vocabulary(folder, WORDS)
    write_params(folder)


def write_corpus(folder, images, captions):
    columns = ["image_id", "path", "split", "group", "width", "height", "sha256"]
    Corpus(
        images=pd.DataFrame(images, columns=columns),
        captions=pd.DataFrame(
            captions, columns=["caption_id", "image_id", "split", "text", "tokens"]
        ),
        boxes=pd.DataFrame(
            columns=["image_id", "x1", "y1", "x2", "y2", "object", "attributes"], dtype=object
        ),
        rejects=pd.DataFrame(columns=["file", "reason"]),
    ).write(folder / "corpus")


def write_image_features(folder, ids, features, **attributes):
    described = {"model": "resnet18", "layer": "layer1", "weights_sha256": "a" * 64, "params": "{}"}
    described |= {"corpus_sha256": "b" * 64} | attributes
    write_features(folder / PATHS["features"], ids, {"features": features}, described)


def write_sentences(folder, **attributes):
    """`sentences.h5`: how often each of the 12 words is in a caption, scaled to unit length."""
    table = load_captions(folder / PATHS["captions"])
    counts = np.array([[words.count(word) for word in WORDS] for words in table["tokens"]], float)
    described = {"model": "tfidf", "layer": "none", "weights_sha256": "d" * 64, "params": "{}"}
    described |= {"corpus_sha256": "e" * 64} | attributes
    vectors = (counts / np.linalg.norm(counts, axis=1, keepdims=True)).astype(np.float16)
    ids = table["caption_id"].tolist()
    write_features(folder / SENTENCES, ids, {"features": vectors}, described)


def write_vocabulary(folder, words, dim=6, without=()):
    """without: words that have no vector of their own."""
    tokens = ["<pad>", "<unk>", *words]
    content = {"schema_version": 1, "sentence_markers": False, "tokens": dict.fromkeys(tokens, 1)}
    target = folder / PATHS["text"]
    target.mkdir(exist_ok=True)
    (target / "vocabulary.json").write_text(json.dumps(content))
    vectors = np.random.default_rng(1).normal(size=(len(tokens), dim)).astype(np.float32)
    known = np.array([0, 0, *[word not in without for word in words]], np.uint8)
    arrays = {"features": vectors, "known": known}
    write_features(target / "vectors.h5", tokens, arrays, {"source": "test"})


def write_params(folder, **changes):
    """The repository's params.yaml with small sizes; changes: dotted keys, `__` for a dot."""
    yaml = YAML()
    values = yaml.load((ROOT / "params.yaml").read_text())
    small = {
        "raw": ".",
        "loss": "max_margin",
        "runtime__device": "cpu",
        "runtime__threads": 1,
        "vse__dim": 8,
        "vse__hidden": 8,
        "vse__word_dim": 6,
        "vocabulary__dim": 6,
        "vse__training__epochs": 4,
        "vse__training__batch_size": 8,
        "vse__training__lr": 0.01,
        "sentences__fisher__centres": 2,
        "sentences__fisher__ica": 4,
        "sentences__fisher__iterations": 3,
        "sentences__fisher__pca": "none",
        "two_branch__hidden": 16,
        "two_branch__dim": 8,
        "two_branch__training__epochs": 4,
        "two_branch__training__batch_size": 8,
        "two_branch__training__lr": 0.01,
        "cca__dim": 4,
    }
    for key, value in (small | changes).items():
        *parents, last = key.split("__")
        node = values
        for parent in parents:
            node = node[parent]
        node[last] = value
    with open(folder / "params.yaml", "w") as file:
        yaml.dump(values, file)


def options(**changes):
    """The command's options for the inputs, as a flat list."""
    return [word for key, path in (PATHS | changes).items() for word in (f"--{key}", path)]


def invoke(command, folder, *arguments):
    """Run a stage's command in this process, in `folder`; returns (exit code, standard error)."""
    runner = CliRunner()
    with chdir(folder):
        result = runner.invoke(command, arguments)
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stderr
