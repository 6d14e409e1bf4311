"""A flipped bit or a cut in a file of any kind: named, or what is read is what was written.

HDF5 and parquet never read some bytes (padding): not every flipped bit can be noticed.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from corpora import write_corpus
from ranking_cases import split_of

from models.dual_path.classes import group_classes, read_pseudo_classes, write_pseudo_classes
from pipeline.corpus.tables import load_captions
from pipeline.evaluation.score_file import read_scores, write_scores
from pipeline.features.sentences.encoder import SentenceEncoder, project, read_encoder
from pipeline.features.sentences.fisher import FisherVector
from pipeline.features.sentences.mixtures import fit_mixture
from pipeline.features.weights import read_weights, write_weights
from pipeline.runtime.errors import WorkbenchError

RANDOM = np.random.default_rng(0)
VECTORS = RANDOM.standard_normal((6, 5), dtype=np.float32)
TEXTS = [list(RANDOM.choice(list("abcdef"), 3)) for _ in range(20)]
SPLIT = replace(
    split_of(RANDOM.standard_normal((3, 6))),
    image_embeddings=VECTORS[:3],
    caption_embeddings=VECTORS,
)
CAPTIONS = [(f"c{n}", f"i{n}", "test", " ".join(words), words) for n, words in enumerate(TEXTS)]


def write_encoder(path: Path) -> None:
    fisher = FisherVector(list("abcdef"), VECTORS, fit_mixture(VECTORS, "hglmm", 2, 3, 0)[0])
    SentenceEncoder("fisher", fisher, project(fisher, TEXTS, 3, "pca")).write(path)


def write_classes(path: Path) -> None:
    images = pd.DataFrame({"image_id": list("wxyz"), "group": list("abcd")})
    write_pseudo_classes(path, group_classes(images), {})


# How a file of each kind is written, and all of it read.
KINDS: dict[str, tuple[Callable[[Path], object], Callable[[Path], Any]]] = {
    "scores.h5": (
        lambda path: write_scores(path, {"test": SPLIT}, {"model": "vse"}),
        lambda path: vars(read_scores(path, "test")),
    ),
    "encoder.h5": (write_encoder, lambda path: read_encoder(path).encode(TEXTS)),
    "classes.h5": (write_classes, lambda path: read_pseudo_classes(path).classes),
    "captions.parquet": (
        lambda path: write_corpus(path.parent, [], CAPTIONS),
        lambda path: load_captions(path).to_dict("list"),
    ),
    "weights.safetensors": (
        lambda path: write_weights(path, {"w": torch.ones(40, 50)}, {"schema_version": 1}),
        lambda path: read_weights(path, "checkpoint", 1)[1]["w"].numpy(),
    ),
}


@pytest.mark.parametrize("name", KINDS)
def test_damage_is_named_or_changes_nothing(tmp_path: Path, name: str) -> None:
    write, read = KINDS[name]
    path = tmp_path / name
    write(path)
    whole, expected, random = path.read_bytes(), read(path), np.random.default_rng(1)
    cuts = [*range(0, len(whole), len(whole) // 20), len(whole) - 1]
    damaged = [whole[:cut] for cut in cuts]
    for place in random.integers(0, len(whole), 120):
        flipped = bytearray(whole)
        flipped[place] ^= 1 << int(random.integers(8))
        damaged.append(bytes(flipped))
    noticed = []
    for number, content in enumerate(damaged):
        path.write_bytes(content)
        try:
            found = read(path)
        except WorkbenchError as error:
            noticed.append(str(error))
            continue
        assert number >= len(cuts), "a cut file is read"
        np.testing.assert_equal(found, expected)
    assert len(noticed) > len(cuts) + 10
    assert all(name in message for message in noticed)
