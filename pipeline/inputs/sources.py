"""Where a model's inputs come from: from row numbers of a split to tensors.

One class per kind of input; the batches do not know which of them they hold.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from pipeline.corpus.vocabulary import Vocabulary
from pipeline.inputs.batches import Split, read_split
from pipeline.inputs.files import Inputs
from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.storage.checkpoint import feature_identity
from pipeline.storage.features import FeatureFile

MEMORY_BUDGET = 4 << 30  # bytes of features held in memory; larger files are read batch by batch


class FeatureRows:
    """Features of N images: rows (B,) to float32 (B, ...).

    Raises WorkbenchError when the file lacks some of the images.
    """

    def __init__(self, features: FeatureFile, image_ids: Sequence[str]) -> None:
        self.features = features
        self.rows = features.rows(image_ids)

    def __call__(self, rows: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(self.features.read(self.rows[rows])).float()


def feature_moments(images: FeatureRows, block: int = 4096) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean and standard deviation (D,) float32 of the features of a source's images.

    Two passes in float64, a block of rows at a time: one pass would cancel digits.
    """
    count = len(images.rows)
    blocks = [np.arange(start, min(start + block, count)) for start in range(0, count, block)]
    mean = torch.stack([images(rows).double().sum(0) for rows in blocks]).sum(0) / count
    squares = [((images(rows).double() - mean) ** 2).sum(0) for rows in blocks]
    return mean.float(), (torch.stack(squares).sum(0) / count).sqrt().float()


class TokenRows:
    """Word ids of M captions: rows (B,) to tokens (B, T), padded with 0, and lengths (B,).

    Kept end to end in one array, so that a single very long caption costs only its own length.
    captions: M non-empty lists of word ids.
    """

    def __init__(self, captions: Sequence[Sequence[int]]) -> None:
        self.lengths = np.fromiter(map(len, captions), np.int64, len(captions))
        self.starts = np.cumsum(self.lengths) - self.lengths
        words = (word for caption in captions for word in caption)
        self.tokens = np.fromiter(words, np.int64, self.lengths.sum())

    def __call__(self, rows: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
        lengths = self.lengths[rows]
        steps = np.arange(lengths.max())
        inside = steps < lengths[:, None]
        padded = np.zeros(inside.shape, np.int64)
        padded[inside] = self.tokens[(self.starts[rows, None] + steps)[inside]]
        return torch.from_numpy(padded), torch.from_numpy(lengths)


class SentenceRows:
    """Vectors of M captions: rows (B,) to one tensor, float32 (B, D), alone in a tuple.

    Raises WorkbenchError when the file lacks some of the captions.
    """

    def __init__(self, features: FeatureFile, captions: pd.DataFrame) -> None:
        self.vectors = FeatureRows(features, captions["caption_id"].tolist())

    def __call__(self, rows: np.ndarray) -> tuple[torch.Tensor]:
        return (self.vectors(rows),)


def open_vectors(path: Path) -> FeatureFile:
    """A file of one feature vector per image or caption (N, D), in memory within the budget.

    Raises WorkbenchError when the features have another shape.
    """
    features = FeatureFile(path)
    shape = features.shape()
    if len(shape) != 2:
        raise WorkbenchError(
            f"{path}: features of shape {shape}; this model takes one vector per row (N, D)"
        )
    features.in_memory(MEMORY_BUDGET)
    return features


def encode_captions(vocabulary: Vocabulary, captions: pd.DataFrame) -> TokenRows:
    """Word ids of a captions table; WorkbenchError naming captions without any word."""
    encoded = [vocabulary.encode(words) for words in captions["tokens"]]
    empty = [name for name, ids in zip(captions["caption_id"], encoded, strict=True) if not ids]
    if empty:
        raise WorkbenchError(
            f"{len(empty)} captions have no words: {listing(empty)}",
            "mend or remove them in the raw captions and run: dvc repro",
        )
    return TokenRows(encoded)


def open_inputs(inputs: Inputs) -> tuple[FeatureFile, FeatureFile]:
    """The features of the images and those of the captions."""
    return open_vectors(inputs.features), open_vectors(inputs.text)


def splits(inputs: Inputs, features: FeatureFile, sentences: FeatureFile) -> Callable[[str], Split]:
    """A function from a split's name to its images and captions, both as vectors.

    Args:
        inputs: whose tables of the corpus are read.
        features: of the images, (N, D).
        sentences: of the captions, (M, S).
    """
    sources = partial(FeatureRows, features), partial(SentenceRows, sentences)
    return lambda name: read_split(name, inputs.images, inputs.captions, *sources)


def identity(features: FeatureFile, sentences: FeatureFile) -> dict[str, str]:
    """What weights cannot be used without."""
    of_sentences = feature_identity(sentences.attributes, "sentences")
    return feature_identity(features.attributes) | of_sentences
