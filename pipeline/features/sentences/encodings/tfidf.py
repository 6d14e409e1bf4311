"""Captions as tf-idf weights of their lemmas: the bag-of-words feature of the two-branch network
(Wang et al. 2016, section 3.1), with 3,000 terms on Flickr30k and 5,600 on MS-COCO there."""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Self

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer

from pipeline.features.sentences.lemmas import Lemmatiser, lemmatiser
from pipeline.features.sentences.params import TfIdfConfig
from pipeline.features.sentences.state import Material, State
from pipeline.features.sentences.stop_words import stop_words
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.files import sha256_file


class TfIdf:
    """Occurrences of the terms in a caption, times the terms' idf, scaled to unit Euclidean norm.

    Args:
        terms: D lemmas.
        idf: (D,) their inverse document frequencies.
        lemmatiser: of the words.
        stop: words and lemmas that do not count.
    """

    by_row = True  # a vector depends on its caption alone

    def __init__(
        self, terms: Sequence[str], idf: np.ndarray, lemmatiser: Lemmatiser, stop: frozenset[str]
    ) -> None:
        self.dim = len(terms)
        self._terms = set(terms)
        self._stop = stop
        self._lemmatiser = lemmatiser
        self._lemmas = partial(content_lemmas, lemmatiser=lemmatiser, stop=stop)
        self._vectoriser = TfidfVectorizer(analyzer=self._lemmas, vocabulary=list(terms))
        self._vectoriser.idf_ = idf.astype(np.float64)

    def known(self, captions: Sequence[Sequence[str]]) -> np.ndarray:
        """How many words of each of M captions have a term as their lemma, (M,) int64."""
        counts = (sum(lemma in self._terms for lemma in self._lemmas(words)) for words in captions)
        return np.fromiter(counts, np.int64, len(captions))

    def encode(self, captions: Sequence[Sequence[str]]) -> np.ndarray:
        """M captions to (M, D) float32, rows of unit norm; zeros for a caption without a term."""
        if not len(captions):  # scikit-learn refuses to transform nothing
            return np.zeros((0, self.dim), np.float32)
        weights = self._vectoriser.transform(captions)
        return np.asarray(weights.astype(np.float32).toarray())

    def state(self) -> State:
        """Terms, idf, stop words, and which lemmatiser it was."""
        provenance = dict(self._lemmatiser.provenance)
        settings = {
            "lemmatiser": provenance["name"],
            "provenance": provenance,
            "stop_words": sorted(self._stop),
        }
        terms = list(self._vectoriser.vocabulary)
        return State(settings, terms, {"idf": self._vectoriser.idf_.copy()})

    @classmethod
    def fit(cls, material: Material) -> "TfIdf":
        """Choose and weigh the terms of the training captions, as the settings ask."""
        settings: TfIdfConfig = material.settings
        chosen = lemmatiser(settings.lemmatiser, settings.wordnet_folder)
        stop = stop_words(settings.stop_words)
        return fit_tfidf(material.captions, settings.terms, chosen, stop)

    @staticmethod
    def depends_on(settings: TfIdfConfig) -> dict[str, object]:
        """What of the settings the vectors depend on: of WordNet and of a list of stop words the
        contents, not the paths."""
        chosen = settings.model_dump(exclude={"wordnet"})
        chosen["lemmatiser"] = lemmatiser(settings.lemmatiser, settings.wordnet_folder).provenance
        if settings.stop_words not in ("function_words", "none"):
            chosen["stop_words"] = sha256_file(settings.stop_words)
        return chosen

    @classmethod
    def restore(cls, state: State, wordnet: Path | None = None) -> Self:
        """The encoding that has a state.

        Args:
            state: what `state` gave.
            wordnet: folder of WordNet's files, None to look for them.

        Returns:
            An encoding that gives the same bytes.

        Raises:
            WorkbenchError: for another lemmatiser than it was fitted with.
        """
        chosen = lemmatiser(state.settings["lemmatiser"], wordnet)
        needed = state.settings["provenance"]
        if needed != chosen.provenance:
            raise WorkbenchError(
                f"the terms were made with the lemmatiser {' '.join(needed.values())}, "
                f"but here it is {' '.join(chosen.provenance.values())}",
                "bring that one back (sentences.tfidf.lemmatiser, .wordnet), or encode the "
                "sentences again with: dvc repro encode_sentences",
            )
        stop = frozenset(state.settings["stop_words"])
        return cls(state.words, state.arrays["idf"], chosen, stop)


def fit_tfidf(
    captions: Iterable[Sequence[str]], terms: int, lemmatiser: Lemmatiser, stop: frozenset[str]
) -> TfIdf:
    """Choose the terms and weigh them.

    Terms are the lemmas with the most occurrences, equally frequent ones in alphabetical order.
    Their weight is scikit-learn's smooth idf = ln((1 + n) / (1 + df)) + 1 for n captions, df of
    them with the lemma.

    Args:
        captions: n lists of words.
        terms: the most terms.
        lemmatiser: of the words.
        stop: words and lemmas that do not count.

    Returns:
        The fitted encoding.

    Raises:
        WorkbenchError: where no lemma is left.
    """
    occurrences: Counter[str] = Counter()
    containing: Counter[str] = Counter()
    total = 0
    for words in captions:
        lemmas = content_lemmas(words, lemmatiser, stop)
        occurrences.update(lemmas)
        containing.update(set(lemmas))
        total += 1
    if not occurrences:
        raise WorkbenchError(
            f"{total:,} training captions without a word that is not a stop word",
            "check the captions, or shorten the list sentences.tfidf.stop_words",
        )
    chosen = sorted(occurrences, key=lambda lemma: (-occurrences[lemma], lemma))[:terms]
    frequencies = np.array([containing[lemma] for lemma in chosen])
    return TfIdf(chosen, np.log((1 + total) / (1 + frequencies)) + 1, lemmatiser, stop)


def content_lemmas(words: Sequence[str], lemmatiser: Lemmatiser, stop: frozenset[str]) -> list[str]:
    """The lemmas of a caption that may be terms.

    Args:
        words: of the caption.
        lemmatiser: of the words.
        stop: words and lemmas that do not count.

    Returns:
        Lemmas in the order of the words, without words that are in `stop` or whose lemma is.
    """
    lemmas = (lemmatiser.lemma(word) for word in words if word not in stop)
    return [lemma for lemma in lemmas if lemma not in stop]
