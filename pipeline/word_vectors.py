"""Word vectors for the words of a corpus: trained on its captions, or read from a published file.

A word is found under exactly its own spelling. Corpus tokens are lower-case, so a file's `Paris` is
not the vector of `paris`: whether it should be depends on the method, and a caller that accepts
other spellings asks for them too. The first of several equal words counts, as in gensim.
"""

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pipeline.errors import WorkbenchError, listing
from pipeline.gensim_file import read_keyed_vectors
from pipeline.runtime import Progress
from pipeline.vector_files import Stream, read_binary, read_text


@dataclass(frozen=True)
class WordVectors:
    """Vectors of some words. dim: D; rows: word -> (D,) float32, all finite."""

    dim: int
    rows: dict[str, np.ndarray]


def train_vectors(
    sentences: Iterable[Sequence[str]],
    words: Iterable[str],
    *,
    dim: int,
    window: int,
    epochs: int,
    seed: int,
) -> WordVectors:
    """Train a vector for each of `words` that `sentences` contain; other words are passed over.

    Skip-gram with negative sampling (Mikolov et al. 2013, arXiv:1310.4546) by gensim, with one
    worker and a fixed hash: it repeats byte for byte.
    """
    from gensim.models import Word2Vec
    from gensim.models.callbacks import CallbackAny2Vec

    kept = set(words)
    corpus = [[word for word in sentence if word in kept] for sentence in sentences]
    with Progress("word2vec", epochs, "epochs") as progress:

        class Report(CallbackAny2Vec):
            def on_epoch_end(self, model: object) -> None:
                progress.update()

        model = Word2Vec(
            sentences=corpus,
            vector_size=dim,
            window=window,
            epochs=epochs,
            seed=seed,
            sg=1,
            min_count=1,
            workers=1,
            hashfxn=stable_hash,
            callbacks=[Report()],
        )
    return _finite(dim, {word: model.wv[word] for word in model.wv.index_to_key}, "word2vec")


def stable_hash(word: str) -> int:
    """A hash that, unlike python's own, is the same in every process."""
    return zlib.crc32(word.encode())


def read_vectors(source: str, path: Path, words: Iterable[str]) -> WordVectors:
    """Read the vectors of those of `words` that the file has.

    source: word2vec_bin (word2vec's binary format), word2vec_text (its text format, or GloVe's
    without a first line of sizes), both also gzipped, or gensim (what KeyedVectors.save wrote).
    Raises WorkbenchError naming the place in a damaged or lying file, or the words whose vectors
    have NaN or infinite values.
    """
    if not path.is_file():
        raise WorkbenchError(f"{path}: no such file", "set vocabulary.vectors to a vector file")
    if source == "gensim":
        dim, rows = _pick(*read_keyed_vectors(path), set(words))
    else:
        read = {"word2vec_bin": read_binary, "word2vec_text": read_text}[source]
        with Stream(path) as stream:
            dim, rows = read(stream, {word.encode(): word for word in words})
    return _finite(dim, rows, str(path))


def _pick(
    words: list[str], matrix: np.ndarray, wanted: set[str]
) -> tuple[int, dict[str, np.ndarray]]:
    """Dimension and the wanted rows of a matrix, perhaps on disk; the first of equal words."""
    places: dict[str, int] = {}
    for row, word in enumerate(words):
        if word in wanted:
            places.setdefault(word, row)
    with np.errstate(over="ignore"):  # becomes infinite, which is reported with its word
        rows = {word: matrix[row].astype(np.float32) for word, row in places.items()}
    return matrix.shape[1], rows


def _finite(dim: int, rows: dict[str, np.ndarray], origin: str) -> WordVectors:
    wrong = [word for word, row in rows.items() if not np.isfinite(row).all()]
    if wrong:
        raise WorkbenchError(
            f"{origin}: NaN or infinite values in the vectors of {listing(wrong)}",
            "get the file again, or choose another with vocabulary.vectors",
        )
    return WordVectors(dim, rows)
