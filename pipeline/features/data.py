"""What a model reads: its files, opened, and the splits of the corpus as tensors.

Images are vectors or regions; captions are words, sentence vectors or the states of tokens. Each is
a class here with the same few members: what weights cannot be used without (`identity`), what
decides a network's shapes (`sizes`), and rows of a split (`source`). Those of captions also read a
text that is in no file: `known`, `encode`. What a text goes through is set from outside, as
`encoder`: training needs none.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from pipeline.corpus.tables import in_split, load_captions, load_images
from pipeline.corpus.vocabulary import Vocabulary
from pipeline.features.checkpoint import feature_identity
from pipeline.features.feature_file import FeatureFile
from pipeline.features.groups import GroupFile
from pipeline.features.layout import cast_finite
from pipeline.features.split import (
    Captions,
    CaptionSource,
    ImageSource,
    Regions,
    Split,
    Words,
    fitting_pairs,
)
from pipeline.runtime.errors import OUT_OF_STEP, WorkbenchError, listing
from pipeline.runtime.files import sha256_file

REGION_DATASETS = ("features", "boxes", "sizes", "counts")
MEMORY_BUDGET = 4 << 30  # bytes of features held in memory; larger files are read batch by batch
VECTOR_BLOCK = 4096  # vectors read at once for their moments
REGION_BLOCK = 256  # images whose regions are read at once for their moments
TOKEN_ENCODER = "token_encoder_sha256"  # of the network's file: in what weights cannot be without

Moments = tuple[Tensor, Tensor]  # mean and standard deviation, (D,) float32 each


# ---- files


@dataclass(frozen=True)
class Inputs:
    images: Path
    captions: Path
    features: Path  # of the images or their regions
    text: Path  # the folder of the vocabulary, or a file of sentence features
    network: Path | None = None  # the one behind the image features
    classes: Path | None = None  # of the instance loss
    states: Path | None = None  # of the captions' tokens
    encoder: Path | None = None  # of queries alone: what their texts go through

    def required(self, field: str) -> Path:
        """An artefact that not every model reads; WorkbenchError when it was not given."""
        path: Path | None = getattr(self, field)
        if path is None:
            raise WorkbenchError(f"this model needs the option --{field}", "see dvc.yaml")
        return path

    def digests(self) -> dict[str, str]:
        """SHA-256 of everything in every artefact, by field and file name."""
        return {
            f"{field}/{file.name}": sha256_file(file)
            for field, path in sorted(vars(self).items())
            if path is not None
            for file in (sorted(path.iterdir()) if path.is_dir() else [path])
        }


# ---- images


class ImageKind(Protocol):
    """Images as a model reads them."""

    file: FeatureFile

    @property
    def identity(self) -> dict[str, str]:
        """What weights cannot be used without."""
        ...

    @property
    def sizes(self) -> dict[str, int]:
        """What decides the shapes of a network's weights, by the names of its arguments."""
        ...

    def source(self, ids: Sequence[str]) -> "ImageRows":
        """The images of these ids."""
        ...


class ImageRows:
    """Images of a file of features: rows (B,) to float32 (B, ...).

    Args:
        file: Of features.
        ids: N ids of images, or of captions for a file of sentences.
    """

    def __init__(self, file: FeatureFile, ids: Sequence[str]) -> None:
        self.file = file
        self.rows = file.rows(ids)

    def __call__(self, rows: np.ndarray, generator: np.random.Generator | None = None) -> Any:
        return torch.from_numpy(self.file.read(self.rows[rows])).float()

    def moments(self) -> Moments:
        """Mean and standard deviation of the features of all N rows."""
        return moments(lambda rows: self(rows).double(), len(self.rows), VECTOR_BLOCK)


class RegionRows(ImageRows):
    """Regions of N images: rows (B,) to Regions."""

    def __call__(self, rows: np.ndarray, generator: np.random.Generator | None = None) -> Regions:
        chosen = self.rows[rows]
        counts = torch.from_numpy(self.file.read(chosen, "counts")).long()
        boxes = torch.from_numpy(self.file.read(chosen, "boxes")).float()
        sizes = torch.from_numpy(self.file.read(chosen, "sizes")).float()
        features = torch.from_numpy(self.file.read(chosen)).float()
        return Regions(features, relative_positions(boxes, sizes), counts)

    def moments(self) -> Moments:
        """Mean and standard deviation of the features of all regions, without the padding."""
        count = len(self.rows)
        if not self.file.read(self.rows, "counts").any():
            raise WorkbenchError(f"{self.file.path}: none of the {count:,} images has a region")

        def existing(rows: np.ndarray) -> Tensor:
            regions = self(rows)
            is_real = torch.arange(regions.features.shape[1]) < regions.counts[:, None]
            return regions.features[is_real].double()

        return moments(existing, count, REGION_BLOCK)


def relative_positions(boxes: Tensor, sizes: Tensor) -> Tensor:
    """Where boxes lie, as shares of their images.

    Args:
        boxes: (B, R, 4) x1, y1, x2, y2 in pixels; all zero where there is no box.
        sizes: (B, 2) width and height of the images in pixels.

    Returns:
        (B, R, 4) width, height, centre x, centre y; zero for a zero box.
    """
    first = boxes[..., :2]
    second = boxes[..., 2:]
    sides = sizes.clamp(min=1)  # 0 of an image without a file
    return torch.cat([second - first, (first + second) / 2], -1) / sides.repeat(1, 2)[:, None]


def moments(vectors: Callable[[np.ndarray], Tensor], count: int, block: int) -> Moments:
    """Mean and standard deviation of vectors, in two passes: one pass would cancel digits.

    Args:
        vectors: From rows (B,) to float64 vectors (n, D).
        count: How many rows there are.
        block: Rows that are read at once.

    Returns:
        Both of shape (D,), float32.
    """
    blocks = [np.arange(start, min(start + block, count)) for start in range(0, count, block)]
    sums = [(part.sum(0), len(part)) for part in map(vectors, blocks)]
    total = sum(size for _, size in sums)
    mean = torch.stack([part for part, _ in sums]).sum(0) / total
    squares = [((vectors(rows) - mean) ** 2).sum(0) for rows in blocks]
    return mean.float(), (torch.stack(squares).sum(0) / total).sqrt().float()


class ImageVectors:
    """One vector per image.

    Args:
        path: A file of features (N, D).
        in_memory: Whether it is read into memory where it fits MEMORY_BUDGET.

    Raises:
        WorkbenchError: The file has another shape.
    """

    def __init__(self, path: Path, in_memory: bool = True) -> None:
        self.file = open_vectors(path, in_memory)

    @property
    def identity(self) -> dict[str, str]:
        """Which network made the features."""
        return feature_identity(self.file.attributes)

    @property
    def sizes(self) -> dict[str, int]:
        """D."""
        return {"image_dim": self.file.shape()[-1]}

    def source(self, ids: Sequence[str]) -> ImageRows:
        """The vectors of these images."""
        return ImageRows(self.file, ids)


class ImageRegions(ImageVectors):
    """The regions of every image.

    Args:
        path: A file that extract_region_features has written.
        in_memory: Whether it is read into memory where it fits MEMORY_BUDGET.

    Raises:
        WorkbenchError: It is another file.
    """

    def __init__(self, path: Path, in_memory: bool = True) -> None:
        self.file = FeatureFile(path)
        lacking = [name for name in REGION_DATASETS if name not in self.file.layouts]
        if lacking:
            raise WorkbenchError(
                f"{path}: not a file of regions: it has no {listing(lacking)}",
                "this model takes the file that extract_region_features writes",
            )
        if in_memory:
            self.file.in_memory(MEMORY_BUDGET)
            for name in REGION_DATASETS[1:]:
                self.file.in_memory(MEMORY_BUDGET // 8, name)

    def source(self, ids: Sequence[str]) -> RegionRows:
        """The regions of these images."""
        return RegionRows(self.file, ids)


def open_vectors(path: Path, in_memory: bool = True) -> FeatureFile:
    """Open a file of one vector per image or caption.

    Args:
        path: Of the file.
        in_memory: Whether it is read into memory where it fits MEMORY_BUDGET.

    Returns:
        The file, of features (N, D).

    Raises:
        WorkbenchError: Its features have another shape.
    """
    file = FeatureFile(path)
    shape = file.shape()
    if len(shape) != 2:
        raise WorkbenchError(
            f"{path}: features of shape {shape}; this model takes one vector per row (N, D)"
        )
    if in_memory:
        file.in_memory(MEMORY_BUDGET)
    return file


# ---- captions


class CaptionKind(Protocol):
    """Captions as a model reads them."""

    encoder: Any  # what texts go through; whoever asks sets it, None where there is none

    @property
    def identity(self) -> dict[str, str]:
        """What weights cannot be used without."""
        ...

    @property
    def sizes(self) -> dict[str, int]:
        """What decides the shapes of a network's weights, by the names of its arguments."""
        ...

    def source(self, table: pd.DataFrame) -> CaptionSource:
        """The captions of some rows of the captions table."""
        ...

    def known(self, words: Sequence[str]) -> list[bool]:
        """Which words of a text the model knows."""
        ...

    @property
    def reader(self) -> str:
        """What reads a text, for a message: the vocabulary, say."""
        ...

    def notes(self, words: Sequence[str], unknown: Sequence[str]) -> list[str]:
        """What the user should know of how a text is read.

        Args:
            words: Of the text.
            unknown: Those that are not known, each once.

        Returns:
            Lines, perhaps none.
        """
        ...

    def encode(self, texts: Sequence[Sequence[str]]) -> Captions:
        """Texts as lists of words, as the captions of the corpus are read."""
        ...


class WordRows:
    """Word ids of M captions: rows (B,) to Words, padded with 0.

    Kept end to end, so that a long caption costs only its own length.

    Args:
        captions: M non-empty lists of word ids.
    """

    def __init__(self, captions: Sequence[Sequence[int]]) -> None:
        self.lengths = np.fromiter(map(len, captions), np.int64, len(captions))
        self.starts = np.cumsum(self.lengths) - self.lengths
        words = (word for caption in captions for word in caption)
        self.values = np.fromiter(words, np.int64, self.lengths.sum())

    def __call__(self, rows: np.ndarray, generator: np.random.Generator | None = None) -> Words:
        lengths = self.lengths[rows]
        steps = np.arange(max(lengths.max(), 1))
        exists = steps < lengths[:, None]
        padded = np.zeros((*exists.shape, *self.values.shape[1:]), self.values.dtype)
        padded[exists] = self.values[(self.starts[rows, None] + steps)[exists]]
        return Words(torch.from_numpy(padded), torch.from_numpy(lengths))


class StateRows(WordRows):
    """States of the tokens of M captions: rows (B,) to Words, padded with 0.

    Args:
        states: (S, E), those of all captions end to end.
        lengths: (M,) tokens of each caption, 0 for one without a known word.
    """

    def __init__(self, states: np.ndarray, lengths: np.ndarray) -> None:
        self.values = states
        self.lengths = lengths
        self.starts = np.cumsum(lengths) - lengths


class CaptionWords:
    """Captions as word ids of a vocabulary; words out of it are read as <unk>.

    Args:
        folder: Of the vocabulary.
    """

    def __init__(self, folder: Path) -> None:
        self.encoder = None
        self.folder = folder
        self.vocabulary = Vocabulary.load(folder)

    @property
    def identity(self) -> dict[str, str]:
        """The digest of the vocabulary."""
        return {"vocabulary_sha256": self.vocabulary.sha256}

    @property
    def sizes(self) -> dict[str, int]:
        """V."""
        return {"vocabulary_size": len(self.vocabulary)}

    def source(self, table: pd.DataFrame) -> CaptionSource:
        """The word ids of some rows of the captions table."""
        return WordRows([self.vocabulary.encode(words) for words in table["tokens"]])

    def known(self, words: Sequence[str]) -> list[bool]:
        """Which words of a text are in the vocabulary."""
        return [Vocabulary.UNK not in self.vocabulary.encode([word]) for word in words]

    @property
    def reader(self) -> str:
        """The vocabulary."""
        return "the vocabulary"

    def notes(self, words: Sequence[str], unknown: Sequence[str]) -> list[str]:
        """That unknown words are read as <unk>.

        Args:
            words: Of the text.
            unknown: Those that are not in the vocabulary, each once.

        Returns:
            One line, or none.
        """
        return [f"not in the vocabulary, read as <unk>: {', '.join(unknown)}"] if unknown else []

    def encode(self, texts: Sequence[Sequence[str]]) -> Captions:
        """The word ids of texts."""
        rows = WordRows([self.vocabulary.encode(words) for words in texts])
        return rows(np.arange(len(texts)))


class SentenceVectors:
    """One vector per caption.

    Args:
        path: A file of sentence features (M, E).
        in_memory: Whether it is read into memory where it fits MEMORY_BUDGET.

    Raises:
        WorkbenchError: The file has another shape.
    """

    def __init__(self, path: Path, in_memory: bool = True) -> None:
        self.file = open_vectors(path, in_memory)
        self.encoder: Any = None

    @property
    def identity(self) -> dict[str, str]:
        """How the sentences were encoded."""
        return feature_identity(self.file.attributes, "sentences")

    @property
    def sizes(self) -> dict[str, int]:
        """E."""
        return {"sentence_dim": self.file.shape()[1]}

    def source(self, table: pd.DataFrame) -> ImageRows:
        """The vectors of some rows of the captions table."""
        return ImageRows(self.file, table["caption_id"].tolist())

    def known(self, words: Sequence[str]) -> list[bool]:
        """Which words of a text the encoder reads."""
        counts = self.encoder.encoding.known([[word] for word in words])
        known: list[bool] = (counts > 0).tolist()
        return known

    @property
    def reader(self) -> str:
        """The encoder by its name."""
        return f"the sentence encoder {self.encoder.name}"

    def notes(self, words: Sequence[str], unknown: Sequence[str]) -> list[str]:
        """That unknown words are left out.

        Args:
            words: Of the text.
            unknown: Those that the encoder does not read, each once.

        Returns:
            One line, or none.
        """
        kinds = "unknown or stop words" if self.encoder.name == "tfidf" else "unknown words"
        return [f"{kinds}, left out: {', '.join(unknown)}"] if unknown else []

    def encode(self, texts: Sequence[Sequence[str]]) -> Captions:
        """The vectors of texts, rounded as the corpus's were, so that a caption of the corpus finds
        what it finds there."""
        vectors = self.encoder.encode([list(words) for words in texts])
        names = ["the query"] * len(texts)
        return torch.from_numpy(cast_finite("query", vectors, self.file.dtype(), names)).float()


class TokenStates:
    """Captions as the states of a transformer's tokens.

    Args:
        path: The file that encode_tokens has written; None for queries alone.
        encoder: Of queries: the transformer, as encode_tokens has written it.

    Raises:
        WorkbenchError: There is no such file, or it holds no states.
    """

    READS: ClassVar = "states"  # what of a token the file has

    def __init__(self, path: Path | None, encoder: Path | None = None) -> None:
        self.encoder: Any = None
        if encoder is not None:
            if not encoder.is_file():
                text = f"{encoder}: no such file"
                raise WorkbenchError(text, "make it again with: dvc repro encode_tokens")
            self._digest = sha256_file(encoder)
            return
        if path is None:
            raise WorkbenchError("this model needs the option --states", "see dvc.yaml")
        self.file = GroupFile(path)
        if "tokens" not in self.file.layouts:
            raise WorkbenchError(
                f"{self.file.path}: made with vse_infinity.words: gru, it has no token states",
                "make it again with: dvc repro encode_tokens",
            )
        if self.READS not in self.file.names("tokens"):
            raise WorkbenchError(
                f"{self.file.path}: has no {self.READS} of tokens, made with another "
                "vse_infinity.train_words.epochs",
                "make it again with: dvc repro encode_tokens",
            )
        self._digest = str(self.file.attributes.get("weights_sha256"))

    @property
    def identity(self) -> dict[str, str]:
        """The digest of the transformer."""
        return {TOKEN_ENCODER: self._digest}

    @cached_property
    def rows(self) -> StateRows:
        """The states of all captions of the file."""
        counts = self.file.array("captions", "counts")
        return StateRows(self.file.view("tokens", self.READS), counts)

    @property
    def sizes(self) -> dict[str, int]:
        """E; there is no vocabulary."""
        return {"vocabulary_size": 0, "state_dim": self.rows.values.shape[1]}

    def source(self, table: pd.DataFrame) -> CaptionSource:
        """The states of some rows of the captions table; WorkbenchError for one without."""
        ids = pd.Index(self.file.texts("captions", "ids"))
        places = ids.get_indexer(pd.Index(table["caption_id"]))
        lost = table["caption_id"][places < 0]
        if len(lost):
            text = f"{self.file.path}: no token states of {listing(lost, 3)}"
            raise WorkbenchError(text, OUT_OF_STEP)
        states = self.rows

        def source(rows: np.ndarray, generator: np.random.Generator | None = None) -> Words:
            return states(places[rows])

        return source

    def known(self, words: Sequence[str]) -> list[bool]:
        """Which words of a text the transformer reads."""
        counts = self.encoder.encoding.known([[word] for word in words])
        known: list[bool] = (counts > 0).tolist()
        return known

    @property
    def reader(self) -> str:
        """The encoder by its name."""
        return f"the sentence encoder {self.encoder.name}"

    def notes(self, words: Sequence[str], unknown: Sequence[str]) -> list[str]:
        """That unknown words are left out.

        Args:
            words: Of the text.
            unknown: Those that the transformer does not read, each once.

        Returns:
            One line, or none.
        """
        return [f"unknown words, left out: {', '.join(unknown)}"] if unknown else []

    def encode(self, texts: Sequence[Sequence[str]]) -> Captions:
        """The states of texts, rounded as the stored ones were."""
        states, lengths = self.encoder.encoding.token_states(texts)
        return StateRows(states.astype(np.float16), lengths)(np.arange(len(texts)))


class TokenIds(TokenStates):
    """Captions as the ids of a transformer's tokens, for a model that has the network in it.

    Args:
        path: The file that encode_tokens has written, with a copy of the network; None for queries.
        encoder: Of queries: the transformer, of which only the tokeniser is used.

    Raises:
        WorkbenchError: There is no such file, or it holds no ids.
    """

    READS: ClassVar = "ids"

    @property
    def network(self) -> dict[str, np.ndarray]:
        """The weights of the network as it was published, by name."""
        names = sorted(self.file.names("network"))
        return {name: self.file.array("network", name) for name in names}

    @property
    def sizes(self) -> dict[str, Any]:
        """E, and what the network's layers follow from."""
        sizes = str(self.file.attributes["network"])
        return {
            "vocabulary_size": 0,
            "state_dim": json.loads(sizes)["hidden_size"],
            "network": sizes,
        }

    def encode(self, texts: Sequence[Sequence[str]]) -> Captions:
        """The ids of texts."""
        ids, lengths = self.encoder.encoding.token_ids(texts)
        return StateRows(ids.astype(np.int64), lengths)(np.arange(len(texts)))


def encode_query(
    captions: CaptionKind, words: Sequence[str], warn: Callable[[str], None]
) -> Captions:
    """The words of a query, read as the captions of the corpus are.

    Args:
        captions: With their encoder open.
        words: In lower case, without punctuation.
        warn: Takes a line about words that are not known.

    Returns:
        One caption.

    Raises:
        WorkbenchError: No word is known.
    """
    known = captions.known(words)
    pairs = zip(words, known, strict=True)
    unknown = list(dict.fromkeys(word for word, is_known in pairs if not is_known))
    if not any(known):
        raise WorkbenchError(
            f"no word of the query is known to {captions.reader}: {listing(unknown)}",
            "use words of the training captions",
        )
    for note in captions.notes(words, unknown):
        warn(note)
    return captions.encode([words])


# ---- both


class RetrievalData:
    """What a model is trained on, scored on and asked with.

    Args:
        files: The artefacts that the model needs.
        images: Its images.
        captions: Its captions.
    """

    def __init__(self, files: Inputs, images: ImageKind, captions: CaptionKind) -> None:
        self.files = files
        self.images = images
        self.captions = captions
        self._splits: dict[str, Split] = {}

    @property
    def identity(self) -> dict[str, str]:
        """What weights cannot be used without."""
        return self.captions.identity | self.images.identity

    @property
    def sizes(self) -> dict[str, int]:
        """What decides the shapes of a network's weights, by the names of its arguments."""
        return self.images.sizes | self.captions.sizes

    def split(self, name: str) -> Split:
        """A split of the corpus, opened once: train, val or test."""
        if name not in self._splits:
            self._splits[name] = self.read_split(name, self.images.source)
        return self._splits[name]

    def read_split(self, name: str, images: Callable[[list[str]], ImageSource]) -> Split:
        """A split whose images come from elsewhere, as from pixels.

        Args:
            name: train, val or test.
            images: From N image ids to their source.

        Returns:
            The split, in the corpus's order.

        Raises:
            WorkbenchError: A caption describes an image that is in no row of the split.
        """
        pictures = in_split(load_images(self.files.images), name)
        texts = in_split(load_captions(self.files.captions), name)
        described = pd.Index(pictures["image_id"]).get_indexer(pd.Index(texts["image_id"]))
        lost = texts["caption_id"][described < 0]
        if len(lost):
            raise WorkbenchError(
                f"{self.files.captions}: {len(lost)} captions of split {name!r} describe images "
                f"that are not in that split of {self.files.images}: {listing(lost)}",
                "the tables are of different corpora; bring them up to date with: dvc repro",
            )
        ids = pictures["image_id"].tolist()
        return Split(
            image_ids=ids,
            image_groups=pictures["group"].tolist(),
            caption_ids=texts["caption_id"].tolist(),
            described=described.astype(np.int64),
            images=images(ids),
            captions=self.captions.source(texts),
            fits=fitting_pairs(ids, texts["fits"]),
        )

    def train_moments(self) -> Moments:
        """Mean and standard deviation of the features of the training images."""
        source: Any = self.images.source(self.split("train").image_ids)
        moments_of_source: Moments = source.moments()
        return moments_of_source
