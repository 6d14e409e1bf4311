"""From the words of the training captions to a vocabulary with a matrix of word vectors.

Words of validation and test captions are never counted: an unknown word is what a model will meet.
By choice their vectors are kept apart, for encoders that only look words up.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.corpus.vocabulary import (
    RESERVED,
    SCHEMA_VERSION,
    Vocabulary,
    content_digest,
    reserved,
)
from pipeline.corpus.words.sample import Background
from pipeline.corpus.words.vectors import WordVectors
from pipeline.features.feature_file import write_features
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.files import write_json

MOST_MISSED = 50


@dataclass(frozen=True)
class Coverage:
    """How many of the frequent enough words, and of their occurrences, have a vector."""

    words: int
    words_with_vector: int
    words_from_other_spelling: int  # of those with a vector
    occurrences: int
    occurrences_with_vector: int
    missing: dict[str, int]  # the most frequent words without one, and their counts

    def __str__(self) -> str:
        words = 100 * self.words_with_vector / self.words
        occurrences = 100 * self.occurrences_with_vector / self.occurrences
        text = (
            f"{words:.1f} % of the words and {occurrences:.1f} % of their occurrences have a vector"
        )
        if self.words_from_other_spelling:
            text += f" (under another spelling: {self.words_from_other_spelling:,})"
        named = ", ".join(f"{word} ({count:,})" for word, count in list(self.missing.items())[:8])
        return text + (f"; most frequent without: {named}" if named else "")


@dataclass(frozen=True)
class BuiltVocabulary:
    """A vocabulary of V tokens and its word vectors."""

    vocabulary: Vocabulary
    matrix: np.ndarray  # (V, D) float32
    known: np.ndarray  # (V,) uint8, 1 for tokens with a vector of their own
    coverage: Coverage
    unlisted: Background | None  # words of the captions that are no tokens
    background: Background | None  # other words of the vector file

    def write(self, folder: Path, made_from: Mapping[str, Any]) -> None:
        """Write `vectors.h5`, `vocabulary.json` and, if there are such words, `unlisted.h5` and
        `background.h5`.

        Args:
            folder: where they go; files of an earlier vocabulary are replaced.
            made_from: settings to keep in them, values of JSON; `source` among them.
        """
        vocabulary = self.vocabulary
        attributes = {
            "model": f"word vectors ({made_from['source']})",
            "vocabulary_sha256": vocabulary.sha256,
            "params": json.dumps(dict(made_from), sort_keys=True),
        }
        arrays = {"features": self.matrix, "known": self.known}
        write_features(
            folder / "vectors.h5", vocabulary.tokens, arrays=arrays, attributes=attributes
        )
        for name, others in (("unlisted.h5", self.unlisted), ("background.h5", self.background)):
            (folder / name).unlink(missing_ok=True)  # of an earlier vocabulary
            if others and others.names:
                arrays = {"features": others.vectors}
                write_features(folder / name, others.names, arrays=arrays, attributes=attributes)
        values = {
            "schema_version": SCHEMA_VERSION,
            "sentence_markers": vocabulary.sentence_markers,
            "made_from": dict(made_from),
            "coverage": vars(self.coverage),
            "tokens": dict(zip(vocabulary.tokens, vocabulary.counts, strict=True)),
        }
        sealed = values | {"sha256": content_digest(values)}
        write_json(folder / "vocabulary.json", sealed)


def count_words(sentences: Iterable[Sequence[str]]) -> Counter[str]:
    """How often each word occurs."""
    return Counter(word for sentence in sentences for word in sentence)


def frequent_words(counts: Mapping[str, int], min_count: int) -> list[str]:
    """The words that are seen often enough, by descending count, then alphabetically, none spelt
    like a reserved token.

    Args:
        counts: occurrences of every word.
        min_count: the fewest occurrences of a word.

    Returns:
        One word at least, without the reserved tokens.

    Raises:
        WorkbenchError: no word is seen that often.
    """
    words = [word for word in counts if word not in RESERVED and counts[word] >= min_count]
    if not words:
        raise WorkbenchError(
            f"vocabulary.min_count = {min_count}: no word is seen that often in the training "
            f"captions, which have {sum(counts.values()):,} words, {len(counts):,} different ones",
            "lower vocabulary.min_count, or look into the captions table of the corpus",
        )
    return sorted(words, key=lambda word: (-counts[word], word))


def build_vocabulary(
    counts: Mapping[str, int],
    captions: int,
    vectors: WordVectors,
    unlisted: Sequence[str] | None = None,
    *,
    min_count: int,
    known_words_only: bool,
    sentence_markers: bool,
    seed: int,
) -> BuiltVocabulary:
    """Choose the words and lay out their vectors.

    Args:
        counts: occurrences of every word in the training captions.
        captions: how many training captions there are.
        vectors: of the words.
        unlisted: words that are no tokens, of which the vectors are kept; None for none.
        min_count: the fewest occurrences of a word.
        known_words_only: leave out words without a vector (Zheng et al. 2020, section 4.1).
        sentence_markers: whether there are tokens for the beginning and the end of a caption.
        seed: of rows of tokens without a vector.

    Returns:
        The vocabulary, its matrix (V, D), which tokens have a vector, the coverage, and the vectors
        of words that are no tokens.

    Raises:
        WorkbenchError: no word is frequent enough, or none of them has a vector.
    """
    words = frequent_words(counts, min_count)
    coverage = measure_coverage(words, counts, vectors)
    if known_words_only:
        words = [word for word in words if word in vectors.rows]
    first = reserved(sentence_markers)
    left_out = sum(counts.values()) - sum(counts[word] for word in words)
    vocabulary = Vocabulary(
        tokens=(*first, *words),
        counts=(0, left_out, *[captions] * (len(first) - 2), *(counts[word] for word in words)),
        sentence_markers=sentence_markers,
    )
    known = np.array([token in vectors.rows for token in vocabulary.tokens], np.uint8)
    matrix = lay_out(vocabulary, vectors, seed)
    others = None
    if unlisted is not None:
        names = [word for word in unlisted if word in vectors.rows]
        rows = np.array([vectors.rows[name] for name in names], np.float32)
        others = Background(names, rows.reshape(len(names), vectors.dim))
    return BuiltVocabulary(
        vocabulary=vocabulary,
        matrix=matrix,
        known=known,
        coverage=coverage,
        unlisted=others,
        background=vectors.background,
    )


def measure_coverage(
    words: Sequence[str], counts: Mapping[str, int], vectors: WordVectors
) -> Coverage:
    """How far word vectors cover some words.

    Args:
        words: the most frequent first.
        counts: their occurrences.
        vectors: those there are.

    Returns:
        Numbers of words and of occurrences, with a vector and in all, and the MOST_MISSED most
        frequent words without one.

    Raises:
        WorkbenchError: no word has a vector.
    """
    known = [word for word in words if word in vectors.rows]
    missing = [word for word in words if word not in vectors.rows]
    if not known:
        raise WorkbenchError(
            f"none of the {len(words):,} words of the training captions has a vector, among them "
            f"{', '.join(words[:5])}",
            "choose vectors of the captions' language and spelling (lower case) with "
            "vocabulary.vectors",
        )
    return Coverage(
        words=len(words),
        words_with_vector=len(known),
        words_from_other_spelling=sum(word in vectors.respelt for word in known),
        occurrences=sum(counts[word] for word in words),
        occurrences_with_vector=sum(counts[word] for word in known),
        missing={word: counts[word] for word in missing[:MOST_MISSED]},
    )


def lay_out(vocabulary: Vocabulary, vectors: WordVectors, seed: int) -> np.ndarray:
    """The vectors of a vocabulary, (V, D) float32: zero for `<pad>`; for tokens without one normal
    with the root mean square of all known values as standard deviation.

    Args:
        vocabulary: V tokens.
        vectors: of its words, each (D,); one at least.
        seed: of the rows of tokens without a vector.

    Returns:
        The matrix; row i is the vector of token i.
    """
    known = np.stack([vectors.rows[token] for token in vocabulary.tokens if token in vectors.rows])
    scale = float(np.sqrt(np.square(known, dtype=np.float64).mean()))
    generator = np.random.default_rng(seed)
    matrix = np.zeros((len(vocabulary), vectors.dim), np.float32)
    for row, token in enumerate(vocabulary.tokens[1:], start=1):
        vector = vectors.rows.get(token)
        matrix[row] = generator.normal(0, scale, vectors.dim) if vector is None else vector
    return matrix
