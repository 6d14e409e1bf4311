"""From the `sentences` section of params.yaml to a fitted sentence encoder."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.files import sha256_file
from pipeline.runtime import say
from pipeline.sections.inputs import Fisher, Sentences
from pipeline.sentences.encoder import Encoding
from pipeline.sentences.fisher import FisherVector
from pipeline.sentences.lemmas import lemmatiser
from pipeline.sentences.mean_vector import MeanVector
from pipeline.sentences.mixtures import fit_mixture
from pipeline.sentences.stop_words import stop_words
from pipeline.sentences.tfidf import fit_tfidf
from pipeline.sentences.word_space import SCALES, fit_word_space
from pipeline.vocabulary import load_background, load_known_vectors

Captions = Sequence[Sequence[str]]


def chosen_settings(settings: Sentences) -> dict[str, Any]:
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


def fit_encoding(settings: Sentences, vocabulary: Path, training: Captions, seed: int) -> Encoding:
    """The chosen encoding, fitted on the training captions and the vocabulary's vectors."""
    if settings.encoding == "tfidf":
        lemmas = lemmatiser(settings.tfidf.lemmatiser, wordnet_folder(settings))
        stop = stop_words(settings.tfidf.stop_words)
        return fit_tfidf(training, settings.tfidf.terms, lemmas, stop)
    words, vectors = load_known_vectors(vocabulary)
    if settings.encoding == "mean_vector":
        return MeanVector(words, vectors)
    return _fisher(settings.fisher, words, vectors, load_background(vocabulary), seed)


def wordnet_folder(settings: Sentences) -> Path | None:
    """The folder given for WordNet's files, None where they are to be looked for."""
    return Path(settings.tfidf.wordnet) if settings.tfidf.wordnet else None


def _fisher(
    settings: Fisher,
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
