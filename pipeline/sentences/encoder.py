"""A fitted sentence encoder as one thing: an encoding, a projection behind it, and their file.

The file holds all that a new sentence needs to be encoded as those of the corpus were.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from pipeline.corpus.vocabulary import load_background, load_known_vectors
from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.runtime.files import sha256_file
from pipeline.runtime.process import say
from pipeline.sentences.fisher import FisherVector
from pipeline.sentences.lemmas import lemmatiser
from pipeline.sentences.mean_vector import MeanVector
from pipeline.sentences.mixtures import fit_mixture
from pipeline.sentences.params import FisherConfig, SentencesConfig
from pipeline.sentences.state import State
from pipeline.sentences.stop_words import stop_words
from pipeline.sentences.tfidf import TfIdf, fit_tfidf
from pipeline.sentences.word_space import SCALES, fit_word_space
from pipeline.statistics.projection import Projection, fit_projection
from pipeline.storage.groups import GroupFile, write_groups
from pipeline.storage.hdf5 import damaged

BLOCK = 256  # captions encoded at once; fixed, since sums of floats depend on it

# What encodings were seen to raise when they are restored from parts that do not fit each other.
MISFITS = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)

Captions = Sequence[Sequence[str]]


class Encoding(Protocol):
    """What turns captions into vectors. dim: their width."""

    dim: int

    def known(self, captions: Captions) -> np.ndarray: ...

    def encode(self, captions: Captions) -> np.ndarray: ...

    def state(self) -> State: ...


@dataclass(frozen=True)
class SentenceEncoder:
    """An encoding and, where one is asked for, the projection of its vectors.

    name: mean_vector, tfidf or fisher.
    """

    name: str
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
    def dim(self) -> int:
        """Width of a sentence's vector."""
        return len(self.projection.components) if self.projection else self.encoding.dim

    def encode(self, captions: Captions) -> np.ndarray:
        """Vectors (M, dim) float32 of M lists of words; zeros where no word is known.

        Equal captions in equal blocks give equal bytes: the caller passes blocks of BLOCK.
        """
        vectors = self.encoding.encode(captions)
        if self.projection is None:
            return vectors
        projected = self.projection.apply(vectors)
        # the projection would turn a row of zeros into the direction opposite to the mean
        projected[self.encoding.known(captions) == 0] = 0
        return projected

    def write(self, path: Path) -> None:
        """Write the encoder atomically; the same encoder gives the same bytes."""
        state = self.encoding.state()
        groups: dict[str, dict[str, Any]] = {"arrays": state.arrays}
        if state.words:
            groups["words"] = {"words": state.words}
        if self.projection is not None:
            parts = self.projection
            totals = np.array([parts.total])
            groups["projection"] = {
                "mean": parts.mean,
                "components": parts.components,
                "variances": parts.variances,
                "total": totals,
            }
        settings = json.dumps(state.settings, sort_keys=True)
        write_groups(path, groups, {"encoding": self.name, "settings": settings})


def read_encoder(path: Path, wordnet: Path | None = None) -> SentenceEncoder:
    """Read what `SentenceEncoder.write` wrote.

    wordnet: folder of WordNet's files, for an encoder that lemmatises by them; None: looked for.
    Raises WorkbenchError when the file is damaged, or when the lemmatiser is not the one it was
    fitted with.
    """
    file = GroupFile(path)
    try:
        state = _state(file)
        name = str(file.attributes["encoding"])
        encoding = _restored(name, state, wordnet)
        return SentenceEncoder(name, encoding, _projection(file, encoding.dim))
    except MISFITS as error:
        raise damaged(path, f"not a sentence encoder ({error!r})") from None


def check_known(ids: Sequence[str], known: np.ndarray, unknown: str) -> None:
    """Judge captions without any known word.

    ids: M; known: (M,) number of known words; unknown: error (raise WorkbenchError naming them) or
    zero (say how many there are: their vectors are zero).
    """
    lost = [name for name, count in zip(ids, known, strict=True) if count == 0]
    if not lost:
        return
    found = f"{len(lost):,} of {len(ids):,} captions have no known word: {listing(lost)}"
    if unknown == "error":
        raise WorkbenchError(
            found,
            "mend them in the raw captions, choose vectors that cover their words, or set "
            "sentences.unknown to zero",
        )
    say(f"{found}; their vectors are zero")


def project(encoding: Encoding, captions: Captions, components: int, key: str) -> Projection:
    """Fit a projection to the vectors of those captions that have a known word.

    components: number kept; key: the parameter that says so, for messages.
    Raises WorkbenchError when there are too few captions or dimensions for so many.
    """
    usable = [
        words for words, known in zip(captions, encoding.known(captions), strict=True) if known
    ]
    most = max(0, min(len(usable) - 1, encoding.dim))
    if components > most:
        raise WorkbenchError(
            f"{key} = {components}: {len(usable):,} training captions with known words and "
            f"{encoding.dim:,} dimensions allow at most {most:,} components",
            f"lower {key} or set it to none",
        )
    vectors = (encoding.encode(block) for _, block in blocks(usable))
    return fit_projection(vectors, components, len(usable))


def blocks(captions: Captions) -> Iterator[tuple[int, Captions]]:
    """Runs of BLOCK captions, each with the row of its first."""
    for start in range(0, len(captions), BLOCK):
        yield start, captions[start : start + BLOCK]


def _state(file: GroupFile) -> State:
    settings = json.loads(str(file.attributes["settings"]))
    words = file.texts("words", "words") if "words" in file.layouts else []
    arrays = {name: file.array("arrays", name) for name in sorted(file.names("arrays"))}
    return State(settings, words, arrays)


def _restored(name: str, state: State, wordnet: Path | None) -> Encoding:
    if name == "tfidf":
        return TfIdf.restore(state, lemmatiser(state.settings["lemmatiser"], wordnet))
    kinds: dict[str, type[MeanVector] | type[FisherVector]] = {
        "mean_vector": MeanVector,
        "fisher": FisherVector,
    }
    return kinds[name].restore(state)


def _projection(file: GroupFile, width: int) -> Projection | None:
    """The projection of vectors of `width` numbers; ValueError when it is one of others."""
    if "projection" not in file.layouts:
        return None
    parts = {name: file.array("projection", name) for name in ("mean", "components", "variances")}
    made = Projection(**parts, total=float(file.array("projection", "total")[0]))
    found = [(array.shape, array.dtype) for array in (made.mean, made.components)]
    if found != [((width,), np.float32), ((len(made.variances), width), np.float32)]:
        raise ValueError(f"a projection of other than {width} numbers")
    if not (len(made.variances) and made.total > 0):
        raise ValueError("a projection without variance")
    return made


def chosen_settings(settings: SentencesConfig) -> dict[str, Any]:
    """What of the section the vectors depend on; files are told by their content, not their path.

    Raises WorkbenchError when the chosen lemmatiser lacks its files.
    """
    chosen = settings.model_dump(exclude={"tfidf": {"wordnet"}})[settings.encoding]
    if settings.encoding == "tfidf":
        lemmas = lemmatiser(settings.tfidf.lemmatiser, wordnet_folder(settings))
        chosen["lemmatiser"] = lemmas.provenance
        if chosen["stop_words"] not in ("function_words", "none"):
            chosen["stop_words"] = sha256_file(chosen["stop_words"])
    return {"encoding": settings.encoding, settings.encoding: chosen}


def fit_encoding(
    settings: SentencesConfig, vocabulary: Path, training: Captions, seed: int
) -> Encoding:
    """The chosen encoding, fitted on the training captions and the vocabulary's vectors."""
    if settings.encoding == "tfidf":
        lemmas = lemmatiser(settings.tfidf.lemmatiser, wordnet_folder(settings))
        stop = stop_words(settings.tfidf.stop_words)
        return fit_tfidf(training, settings.tfidf.terms, lemmas, stop)
    words, vectors = load_known_vectors(vocabulary)
    if settings.encoding == "mean_vector":
        return MeanVector(words, vectors)
    return _fisher(settings.fisher, words, vectors, load_background(vocabulary), seed)


def wordnet_folder(settings: SentencesConfig) -> Path | None:
    """The folder given for WordNet's files, None where they are to be looked for."""
    return Path(settings.tfidf.wordnet) if settings.tfidf.wordnet else None


def _fisher(
    settings: FisherConfig,
    words: list[str],
    vectors: np.ndarray,
    background: np.ndarray | None,
    seed: int,
) -> Encoding:
    basis = vectors if background is None else np.concatenate([vectors, background])
    space = fit_word_space(basis, settings.ica, SCALES[settings.mixture], seed)
    placed = space.apply(basis)
    mixture, likelihoods = fit_mixture(
        placed, settings.mixture, settings.centres, settings.iterations, seed
    )
    say(
        f"{settings.mixture} of {settings.centres} centres on {len(basis):,} word vectors: mean "
        f"log-likelihood {likelihoods[0]:.2f} after the first iteration, {likelihoods[-1]:.2f} "
        f"after {len(likelihoods)}"
    )
    return FisherVector(words, placed[: len(words)], mixture)
