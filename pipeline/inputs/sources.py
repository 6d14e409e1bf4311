"""Where a model's inputs come from, a class per kind: from row numbers of a split to tensors."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from pipeline.corpus.vocabulary import Vocabulary
from pipeline.inputs.batches import CaptionSource, ImageSource, Split, read_split
from pipeline.inputs.files import Inputs
from pipeline.runtime.errors import WorkbenchError
from pipeline.storage.checkpoint import feature_identity
from pipeline.storage.features import FeatureFile

MEMORY_BUDGET = 4 << 30  # bytes of features held in memory; larger files are read batch by batch
ImagesById = Callable[[list[str]], ImageSource]


class FeatureRows:
    """Features of N images: rows (B,) to float32 (B, ...)."""

    def __init__(self, features: FeatureFile, image_ids: Sequence[str]) -> None:
        self.features = features
        self.rows = features.rows(image_ids)

    def __call__(self, rows: np.ndarray) -> Any:
        return torch.from_numpy(self.features.read(self.rows[rows])).float()

    def moments(self, block: int = 4096) -> tuple[torch.Tensor, torch.Tensor]:
        """Mean and standard deviation (D,) float32 of the features of all N images."""
        return moments(lambda rows: self(rows).double(), len(self.rows), block)


def moments(
    vectors: Callable[[np.ndarray], torch.Tensor], count: int, block: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean and standard deviation (D,) float32 of vectors, two passes over blocks of rows. One
    pass would cancel digits. vectors: rows (B,) of `count` to float64 (n, D)."""
    blocks = [np.arange(start, min(start + block, count)) for start in range(0, count, block)]
    sums = [(part.sum(0), len(part)) for part in map(vectors, blocks)]
    total = sum(size for _, size in sums)
    mean = torch.stack([part for part, _ in sums]).sum(0) / total
    squares = [((vectors(rows) - mean) ** 2).sum(0) for rows in blocks]
    return mean.float(), (torch.stack(squares).sum(0) / total).sqrt().float()


class TokenRows:
    """Word ids of M captions, non-empty lists: rows (B,) to tokens (B, T), padded with 0, and
    lengths (B,). Kept end to end, so that a long caption costs only its own length."""

    def __init__(self, captions: Sequence[Sequence[int]]) -> None:
        self.lengths = np.fromiter(map(len, captions), np.int64, len(captions))
        self.starts = np.cumsum(self.lengths) - self.lengths
        words = (word for caption in captions for word in caption)
        self.tokens = np.fromiter(words, np.int64, self.lengths.sum())

    def __call__(self, rows: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
        lengths = self.lengths[rows]
        steps = np.arange(max(lengths.max(), 1))
        inside = steps < lengths[:, None]
        padded = np.zeros((*inside.shape, *self.tokens.shape[1:]), self.tokens.dtype)
        padded[inside] = self.tokens[(self.starts[rows, None] + steps)[inside]]
        return torch.from_numpy(padded), torch.from_numpy(lengths)


class SentenceRows:
    """Vectors of M captions: rows (B,) to one tensor, float32 (B, D), alone in a tuple."""

    def __init__(self, features: FeatureFile, captions: pd.DataFrame) -> None:
        self.vectors = FeatureRows(features, captions["caption_id"].tolist())

    def __call__(self, rows: np.ndarray) -> tuple[torch.Tensor]:
        return (self.vectors(rows),)


def open_vectors(path: Path, in_memory: bool = True) -> FeatureFile:
    """A file of one feature vector per image or caption (N, D), read into memory if it fits."""
    features = FeatureFile(path)
    shape = features.shape()
    if len(shape) != 2:
        raise WorkbenchError(
            f"{path}: features of shape {shape}; this model takes one vector per row (N, D)"
        )
    if in_memory:
        features.in_memory(MEMORY_BUDGET)
    return features


def encode_captions(vocabulary: Vocabulary, captions: pd.DataFrame) -> TokenRows:
    """Word ids of a captions table; each caption of a corpus has a word."""
    return TokenRows([vocabulary.encode(words) for words in captions["tokens"]])


class OpenedInputs(ABC):
    """What a model reads, opened; features: of the images, or of their regions."""

    files: Inputs
    features: FeatureFile

    @property
    @abstractmethod
    def identity(self) -> dict[str, str]:
        """What weights cannot be used without."""

    @property
    @abstractmethod
    def sizes(self) -> dict[str, int]:
        """What decides the shapes of a network's weights, by the names of its arguments."""

    @abstractmethod
    def images(self, ids: list[str]) -> FeatureRows:
        """The source of N images."""

    @abstractmethod
    def captions(self, table: pd.DataFrame) -> CaptionSource:
        """The source of M rows of the captions table."""

    def split(self, name: str, images: ImagesById | None = None) -> Split:
        """The images and captions of a split. images: from N image ids to their source, None:
        that of the features."""
        sources = images or self.images, self.captions
        return read_split(name, self.files.images, self.files.captions, *sources)


class VectorInputs(OpenedInputs):
    """One vector per image and one per caption; `text` of the files is one of sentence vectors."""

    def __init__(self, files: Inputs, in_memory: bool = True) -> None:
        self.files = files
        self.features = open_vectors(files.features, in_memory)
        self.sentences = open_vectors(files.text, in_memory)

    @property
    def identity(self) -> dict[str, str]:
        of_sentences = feature_identity(self.sentences.attributes, "sentences")
        return feature_identity(self.features.attributes) | of_sentences

    @property
    def sizes(self) -> dict[str, int]:
        return {"image_dim": self.features.shape()[1], "sentence_dim": self.sentences.shape()[1]}

    def images(self, ids: list[str]) -> FeatureRows:
        return FeatureRows(self.features, ids)

    def captions(self, table: pd.DataFrame) -> SentenceRows:
        return SentenceRows(self.sentences, table)
