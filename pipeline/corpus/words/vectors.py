"""Word vectors for the words of a corpus: trained on its captions, or read from a published file. A
word is found under exactly its own spelling, in any coding of its letters, unless others are
allowed; of equal words the first counts, as in gensim."""

import unicodedata
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

import numpy as np

from pipeline.corpus.words.forms import read_file
from pipeline.corpus.words.sample import Background, WordSample
from pipeline.corpus.words.transformer import Transformer
from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.runtime.first_bytes import absent, shown_path
from pipeline.runtime.process import Progress

WINDOW = 5  # words on either side that a word is to predict, at most
# Letters of Hindi, Bengali and others that the usual normal forms take apart, by their parts.
_LETTERS = {
    unicodedata.normalize("NFC", letter): letter
    for letter in map(chr, range(0x0900, 0x0C00))
    if unicodedata.normalize("NFC", letter) != letter
}


@dataclass(frozen=True)
class WordVectors:
    """Vectors of the words of a corpus, and where they are from."""

    dim: int  # D
    rows: dict[str, np.ndarray]  # word to (D,) float32, all finite
    respelt: dict[str, str] = field(default_factory=dict)  # word to the other spelling it took
    background: Background | None = None  # a sample of other words
    sha256: dict[str, str] = field(default_factory=dict)  # of a transformer's files, by name
    form: str = ""  # of the file, where it is another than params.yaml says


def train_vectors(
    sentences: Iterable[Sequence[str]],
    words: Iterable[str],
    *,
    dim: int,
    epochs: int,
    seed: int,
) -> WordVectors:
    """Train word vectors: skip-gram with negative sampling (Mikolov et al. 2013, arXiv:1310.4546)
    by gensim, the same byte for byte.

    Args:
        sentences: the words of each.
        words: those that get a vector; others are left out of the sentences.
        dim: D, the numbers of a vector.
        epochs: how often the sentences are gone through.
        seed: of first values and negative samples.

    Returns:
        A vector for each word that the sentences contain.
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
            window=WINDOW,
            epochs=epochs,
            seed=seed,
            sg=1,
            min_count=1,
            workers=1,
            hashfxn=lambda word: zlib.crc32(word.encode()),  # the same in every process
            callbacks=[Report()],
        )
    return _finite(dim, {word: model.wv[word] for word in model.wv.index_to_key}, "word2vec")


def read_vectors(
    source: str,
    path: Path,
    words: Iterable[str],
    unlisted: Iterable[str] = (),
    *,
    other_cases: bool = False,
    background: int = 0,
    seed: int = 0,
    dim: int | None = None,
) -> WordVectors:
    """Read the vectors of some words.

    Args:
        source: word2vec_bin, or word2vec_text, also for GloVe's and fastText's files, whose first
            bytes decide; transformer.
        path: the file, perhaps packed, or a transformer's folder or cached name, whose tokenizer
            also normalises words.
        words: those of the vocabulary.
        unlisted: further words, which leave the sample of others alone.
        other_cases: a word that the file lacks takes the vector of the first of its other
            spellings there.
        background: size of a sample of other words.
        seed: of the sample.
        dim: of the files in a zip archive with several, how long the vectors of the wanted are.

    Returns:
        The vectors of those words that the file has.

    Raises:
        WorkbenchError: names the place of a fault.
    """
    model = Transformer(path) if source == "transformer" else None
    if model is None and not path.is_file():
        raise WorkbenchError(
            f"{shown_path(path)}: {absent(path)}", "set vocabulary.vectors to a vector file"
        )

    def accept(word: str) -> tuple[str, ...]:
        others = (word.lower(), word.capitalize(), word.upper())  # the order of Klein et al. 2015
        spellings = dict.fromkeys((word, *others)) if other_cases else (word,)
        group = tuple(coding for spelling in spellings for coding in codings(spelling))
        return tuple(map(model.normalise, group)) if model else group

    listed = {word: accept(word) for word in words}
    accepted = listed | {word: accept(word) for word in unlisted}
    sample = WordSample(background, seed, set(chain.from_iterable(listed.values())))
    wanted = {word.encode(): word for word in chain.from_iterable(accepted.values())}
    form = source
    if model:
        width, rows = model.read(set(wanted.values()), sample)
    else:
        form, width, rows = read_file(source, path, dim, wanted, sample)
    chosen = {
        word: next(spelling for spelling in group if spelling in rows)
        for word, group in accepted.items()
        if not rows.keys().isdisjoint(group)
    }
    return replace(
        _finite(width, {word: rows[spelling] for word, spelling in chosen.items()}, str(path)),
        respelt={word: spelling for word, spelling in chosen.items() if word != spelling},
        background=sample.result(width) if background else None,
        sha256=model.sha256 if model else {},
        form="" if form == source else form,
    )


def codings(word: str) -> tuple[str, ...]:
    """A word as files may have it: itself, then with other codes for the same letters and marks."""
    if word.isascii() and "'" not in word[1:]:
        return (word,)
    letters = word
    for parts, letter in _LETTERS.items():
        letters = letters.replace(parts, letter)
    typed = word.replace("\u05f3", "'").replace("\u05f4", '"')  # Hebrew's marks
    others = (unicodedata.normalize("NFD", word), letters, typed, word.replace("'", "\u2019"))
    return tuple(dict.fromkeys((word, *others)))


def _finite(dim: int, rows: dict[str, np.ndarray], origin: str) -> WordVectors:
    """Word vectors; WorkbenchError for values that are no numbers."""
    wrong = [word for word, row in rows.items() if not np.isfinite(row).all()]
    if wrong:
        raise WorkbenchError(
            f"{origin}: NaN or infinite values in the vectors of {listing(wrong)}",
            "get the file again, or choose another with vocabulary.vectors",
        )
    return WordVectors(dim, rows)
