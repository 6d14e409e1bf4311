"""Sentence encoders: how captions become vectors of fixed width, and how a new text becomes one.

An encoder is an `Encoding` (a file of encodings/) and, where one is asked for, a projection of its
vectors on their principal components. `fit_encoder` fits one on the training captions, its `write`
and `read_encoder` keep it in a file with all that a new sentence needs to be encoded as those of
the corpus were, and `encoder_job` makes the feature file of all captions.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
from pandas import DataFrame

from pipeline.corpus.tables import captions_digest, in_split
from pipeline.features.batches import alone, in_blocks
from pipeline.features.feature_file import IMPORTED, FeatureFile, FeatureWriter
from pipeline.features.groups import GroupFile, write_groups
from pipeline.features.hdf5 import damaged
from pipeline.features.sentences.encodings import ENCODINGS
from pipeline.features.sentences.params import SentencesConfig
from pipeline.features.sentences.state import Material, State
from pipeline.features.shards import FeatureJob
from pipeline.features.statistics.projection import Projection, fit_projection
from pipeline.runtime.errors import OUT_OF_STEP, WorkbenchError, listing
from pipeline.runtime.files import sha256_file
from pipeline.runtime.process import Progress, say

BLOCK = 256  # captions encoded at once; fixed, since sums of floats depend on it

# What encodings were seen to raise when they are restored from parts that do not fit each other.
MISFITS = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)

Captions = Sequence[Sequence[str]]  # lists of words


class Encoding(Protocol):
    """What turns captions into vectors of `dim` numbers.

    Some have more. One whose settings name files or programs has `depends_on(settings)`: what of
    them its vectors depend on, JSON-able, files told by their content; for others it is the
    settings. One whose vectors depend on their caption alone, whatever stands beside it in a block,
    has `by_row = True`. One that is a network has `layer`, what its vectors are in one line,
    `block` in place of BLOCK, `to(device)`, and `cut(captions)`: how many of M it reads in part.
    """

    dim: int

    @classmethod
    def fit(cls, material: Material) -> Self:
        """Fit it to training captions, or to the vectors of their words."""

    @classmethod
    def restore(cls, state: State, wordnet: Path | None = None) -> Self:
        """The encoding that has a state.

        Args:
            state: what `state` gave.
            wordnet: folder of WordNet's files, None to look for them.

        Returns:
            An encoding that gives the same bytes.
        """

    def known(self, captions: Captions) -> np.ndarray:
        """How many words of each of M captions it knows, (M,) int64."""

    def encode(self, captions: Captions) -> np.ndarray:
        """M captions to (M, dim) float32; zeros for a caption without a known word."""

    def state(self) -> State:
        """All that it is made of."""


@dataclass(frozen=True)
class SentenceEncoder:
    """An encoding and, where one is asked for, the projection of its vectors."""

    name: str  # of the encoding, a name of ENCODINGS
    encoding: Encoding
    projection: Projection | None

    def __str__(self) -> str:
        if self.projection is None:
            return self.name
        return (
            f"{self.name} of {self.encoding.dim:,} dimensions, projected with "
            f"{100 * self.projection.explained:.1f} % of the variance kept"
        )

    @property
    def block(self) -> int:
        """Captions encoded at once."""
        return int(getattr(self.encoding, "block", BLOCK))

    @property
    def by_row(self) -> bool:
        """Whether the bytes of a vector depend on its caption alone. The products of a projection
        depend on the place in the block, too."""
        return self.projection is None and getattr(self.encoding, "by_row", False)

    @property
    def dim(self) -> int:
        """Values of a vector."""
        return len(self.projection.components) if self.projection else self.encoding.dim

    @property
    def layer(self) -> str:
        """What is done behind the encoding, or where its vectors stand in a network."""
        if self.projection is not None:
            return f"pca {self.dim}"
        return str(getattr(self.encoding, "layer", "none"))

    def encode(self, captions: Captions) -> np.ndarray:
        """Vectors (M, dim) float32 of M lists of words; zeros where no word is known. Equal
        captions in equal blocks give equal bytes: the caller passes blocks of `block`."""
        vectors = self.encoding.encode(captions)
        if self.projection is None:
            return vectors
        projected = self.projection.apply(vectors)
        # the projection would turn a row of zeros into the direction opposite to the mean
        projected[self.encoding.known(captions) == 0] = 0
        return projected

    def to(self, device: Any) -> None:
        """Compute there from now on; for an encoding that is a network."""
        getattr(self.encoding, "to")(device)  # noqa: B009

    def too_long(self, captions: Captions) -> list[str]:
        """A line where some of M captions are longer than the encoding reads."""
        cut = self.encoding.cut(captions) if hasattr(self.encoding, "cut") else 0
        remark = f"{cut:,} of {len(captions):,} texts are longer than the network reads"
        return [f"{remark}; their ends are cut"] if cut else []

    def write(self, path: Path) -> None:
        """Write the encoder atomically; the same encoder gives the same bytes."""
        state = self.encoding.state()
        groups: dict[str, dict[str, Any]] = {"arrays": state.arrays}
        if state.words:
            groups["words"] = {"words": state.words}
        if self.projection is not None:
            total = np.array([self.projection.total])
            groups["projection"] = vars(self.projection) | {"total": total}
        settings = json.dumps(state.settings, sort_keys=True)
        write_groups(path, groups, {"encoding": self.name, "settings": settings})


def read_encoder(path: Path, wordnet: Path | None = None) -> SentenceEncoder:
    """Read what `SentenceEncoder.write` wrote.

    Args:
        path: of the file.
        wordnet: folder of WordNet's files, None to look for them; only tf-idf reads them.

    Returns:
        An encoder that gives the same bytes as the one that was written.

    Raises:
        WorkbenchError: for a damaged file, and for another lemmatiser than the one it was fitted
            with.
    """
    file = GroupFile(path)
    try:
        settings = json.loads(str(file.attributes["settings"]))
        words = file.texts("words", "words") if "words" in file.layouts else []
        arrays = {name: file.array("arrays", name) for name in sorted(file.names("arrays"))}
        name = str(file.attributes["encoding"])
        encoding: Encoding = ENCODINGS.load(name).restore(State(settings, words, arrays), wordnet)
        projection = None
        if "projection" in file.layouts:
            parts = {name: file.array("projection", name) for name in file.names("projection")}
            total = float(parts.pop("total")[0])
            projection = Projection(**parts, total=total)
        return SentenceEncoder(name, encoding, projection)
    except MISFITS as error:
        raise damaged(path, f"not a sentence encoder ({error!r})") from None


def encoder_of(sentences: FeatureFile, path: Path, wordnet: Path | None) -> SentenceEncoder:
    """The encoder that made the vectors of a feature file.

    Args:
        sentences: the feature file.
        path: of the encoder.
        wordnet: folder of WordNet's files, None to look for them.

    Returns:
        The encoder.

    Raises:
        WorkbenchError: where the vectors were made elsewhere, and where the encoder is missing or
            another.
    """
    if str(sentences.attributes.get("model")).startswith(IMPORTED):
        raise WorkbenchError(
            f"{sentences.path}: its vectors come from a file (sentences.encoding: file): there is "
            "no encoder here that makes one from a text",
            "choose another encoding; or search with an image, or with a model that reads words, "
            "as vse; or set phrases.source to none",
        )
    if not path.is_file():
        raise WorkbenchError(f"{path}: no such file", "make it with: dvc repro")
    if sha256_file(path) != sentences.attributes.get("weights_sha256"):
        raise WorkbenchError(f"{path}: not the encoder of {sentences.path}", OUT_OF_STEP)
    return read_encoder(path, wordnet)


def fit_encoder(
    settings: SentencesConfig, vocabulary: Path, table: DataFrame, seed: int
) -> SentenceEncoder:
    """Fit the encoder that is asked for on the training captions.

    Args:
        settings: the section sentences.
        vocabulary: folder of the words and their vectors.
        table: of all captions, whose split `train` is the training set.
        seed: of mixtures and independent components.

    Returns:
        The fitted encoder.

    Raises:
        WorkbenchError: for captions without a known word where `unknown` is error, and for more
            components of a projection than there can be.
    """
    name = settings.encoding
    section = getattr(settings, name, None)
    training = list(in_split(table, "train")["tokens"])
    encoding: Encoding = ENCODINGS.load(name).fit(Material(section, training, vocabulary, seed))
    encoder = SentenceEncoder(name, encoding, None)
    check_known(list(table["caption_id"]), list(table["tokens"]), encoder, settings.unknown)
    components = getattr(section, "pca", None)
    if not components:
        return encoder
    key = f"sentences.{name}.pca"
    return replace(encoder, projection=project(encoding, training, components, key))


def check_known(
    ids: Sequence[str], captions: Captions, encoder: SentenceEncoder, unknown: str
) -> None:
    """Say how many captions are cut, and how many have no known word: their vectors are zero.

    Args:
        ids: names of M captions.
        captions: M lists of words.
        encoder: that is to encode them.
        unknown: sentences.unknown, zero or error.

    Raises:
        WorkbenchError: where `unknown` is error and a caption has no known word.
    """
    for line in encoder.too_long(captions):
        say(line)
    known = encoder.encoding.known(captions)
    lost = [name for name, count in zip(ids, known, strict=True) if count == 0]
    if not lost:
        return
    problem = f"{len(lost):,} of {len(ids):,} captions have no known word: {listing(lost)}"
    if unknown == "error":
        raise WorkbenchError(
            problem,
            "mend them in the raw captions, choose vectors that cover their words, or set "
            "sentences.unknown to zero",
        )
    say(f"{problem}; their vectors are zero")


def project(encoding: Encoding, captions: Captions, components: int, key: str) -> Projection:
    """Fit a projection to the vectors of those captions that have a known word.

    Args:
        encoding: that makes the vectors.
        captions: M lists of words.
        components: P, how many principal components are kept.
        key: of params.yaml that asks for so many, for messages.

    Returns:
        The projection from `encoding.dim` to P values.

    Raises:
        WorkbenchError: for more components than captions and dimensions allow, and for captions
            that all have the same vector.
    """
    is_known = encoding.known(captions) > 0
    usable = [words for words, known in zip(captions, is_known, strict=True) if known]
    most = max(0, min(len(usable) - 1, encoding.dim))
    if components > most:
        raise WorkbenchError(
            f"{key} = {components}: {len(usable):,} training captions with known words and "
            f"{encoding.dim:,} dimensions allow at most {most:,} components",
            f"lower {key} or set it to none",
        )
    vectors = (encoding.encode(block) for _, block in blocks(usable))
    return fit_projection(vectors, components, len(usable))


def blocks(captions: Captions, size: int = BLOCK) -> Iterator[tuple[int, Captions]]:
    """Captions in blocks, as they are encoded.

    Args:
        captions: M lists of words.
        size: captions of a block; the last has what is left.

    Yields:
        The row of a block's first caption, and the block.
    """
    for start in range(0, len(captions), size):
        yield start, captions[start : start + size]


def chosen_settings(settings: SentencesConfig) -> dict[str, object]:
    """What of the section the vectors depend on, JSON-able; files are told by their content, not
    their path."""
    name = settings.encoding
    section = getattr(settings, name, None)
    depends_on = getattr(ENCODINGS.load(name), "depends_on", None)
    if section is None:
        return {"encoding": name}
    return {"encoding": name, name: depends_on(section) if depends_on else section.model_dump()}


def encoder_job(
    fitted: Path, wordnet: Path | None, captions: DataFrame, settings: str, machine: list[object]
) -> tuple[FeatureJob, SentenceEncoder]:
    """The job that makes the vectors of all captions, and the encoder that makes them.

    Args:
        fitted: file of the encoder; a continued run computes with the very same numbers.
        wordnet: folder of WordNet's files, None to look for them.
        captions: table of M captions.
        settings: what of params.yaml the vectors depend on, as JSON.
        machine: what else they depend on, JSON-able.

    Returns:
        The job that writes (M, dim) float16, and the encoder.

    Raises:
        WorkbenchError: for a damaged file of the encoder, and for another lemmatiser.
    """
    encoder = read_encoder(fitted, wordnet)
    attributes: dict[str, str | int | float] = {
        "params": settings,
        "corpus_sha256": captions_digest(captions),
        "model": encoder.name,
        "weights_sha256": sha256_file(fitted),
        "layer": encoder.layer,
    }
    digests = [
        hashlib.sha256(json.dumps(list(words)).encode()).hexdigest() for words in captions["tokens"]
    ]
    job = FeatureJob(
        ids=captions["caption_id"].tolist(),
        datasets={"features": ((encoder.dim,), "float16")},
        attributes=attributes,
        machine=machine,
        fill=partial(encode_missing, encoder, list(captions["tokens"])),
        inputs=(alone if encoder.by_row else in_blocks)(digests, encoder.block),
    )
    return job, encoder


def encode_missing(encoder: SentenceEncoder, captions: Captions, writer: FeatureWriter) -> None:
    """Write the missing rows.

    Args:
        encoder: that makes the vectors.
        captions: M lists of words.
        writer: of a feature file of M rows.

    Raises:
        WorkbenchError: for vectors that float16 cannot hold.
    """
    todo = writer.batches(encoder.block)
    done = len(captions) - sum(len(rows) for rows in todo)
    with Progress("sentences", len(captions), "captions", done) as progress:
        for rows in todo:
            writer.write(rows, features=encoder.encode([captions[row] for row in rows]))
            progress.update(len(rows))
