"""Phrases through the encoder of captions (Fisher vectors in Wang et al. 2016, section 3.3)."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.files import sha256_file
from pipeline.sentences.encoder import SentenceEncoder, blocks, check_known, read_encoder
from pipeline.storage.features import FeatureFile
from pipeline.storage.groups import GroupFile

REMEDY = "bring both up to date with: dvc repro encode_sentences"


def encoding_of(path: Path, made_with: FeatureFile, wordnet: Path | None) -> SentenceEncoder:
    """The encoder of the captions, by the vectors it made; wordnet: folder, None to look for it."""
    if path.is_file() and GroupFile(path).attributes.get("encoding") == "file":
        raise WorkbenchError(
            "sentences.encoding = file: there is no encoder that makes a vector of a phrase",
            "set sentences.encoding to fisher or another, or phrases.source to none",
        )
    if not path.is_file():
        raise WorkbenchError(f"{path}: no such file", REMEDY)
    if sha256_file(path) != made_with.attributes.get("weights_sha256"):
        raise WorkbenchError(f"{path}: not the encoder of {made_with.path}", REMEDY)
    return read_encoder(path, wordnet)


def encoded(
    encoder: SentenceEncoder, words: Sequence[Sequence[str]], names: Sequence[str], unknown: str
) -> np.ndarray:
    """Vectors (M, E) float32 of M phrases; where no word is known zeros or an error (`unknown`)."""
    check_known(names, words, encoder, unknown)
    return np.concatenate([encoder.encode(block) for _, block in blocks(words, encoder.block)])
