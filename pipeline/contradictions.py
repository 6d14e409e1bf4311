"""Combinations of parameters that are wrong although each value is allowed.

Values are looked at one by one, before they are known to be of the right type: every check must
hold its tongue where a value it needs is missing or ill-typed, which is reported elsewhere.
"""

import os
from collections.abc import Callable, Iterator
from typing import Any

Get = Callable[[str], Any]


def contradictions(values: dict[str, Any]) -> Iterator[str]:
    """Yield one line per combination of keys in a params.yaml that cannot be meant."""

    def get(key: str) -> Any:
        node: Any = values
        for part in key.split("."):
            node = node.get(part) if isinstance(node, dict) else None
        return node

    for check in (_raw, _vocabulary, _image_features, _sentences, _two_branch, _epochs):
        yield from check(get)


def _raw(get: Get) -> Iterator[str]:
    raw = get("raw")
    if isinstance(raw, str) and raw and not os.path.exists(raw):
        yield f"raw = {raw!r}: no such file or folder"


def _vocabulary(get: Get) -> Iterator[str]:
    source, vectors = get("vocabulary.source"), get("vocabulary.vectors")
    if source in ("word2vec_bin", "word2vec_text", "gensim"):
        if vectors is None:
            yield f"vocabulary.vectors = None: source {source!r} needs the path of a vector file"
        elif isinstance(vectors, str) and not os.path.isfile(vectors):
            yield f"vocabulary.vectors = {vectors!r}: no such file"
    if source == "train":
        if vectors is not None:
            yield f"vocabulary.vectors = {vectors!r}: must be null when source is 'train'"
        for key in ("known_words_only", "other_cases"):
            if get(f"vocabulary.{key}") is True:
                yield f"vocabulary.{key} = True: needs a source of vectors other than 'train'"
        background = get("vocabulary.background")
        if isinstance(background, int) and background > 0:
            yield (
                f"vocabulary.background = {background}: "
                "needs a source of vectors other than 'train'"
            )
        word_dim, dim = get("vse.word_dim"), get("vocabulary.dim")
        if get("vse.word_vectors") == "pretrained" and word_dim != dim:
            yield (
                f"vse.word_dim = {word_dim!r}: must equal vocabulary.dim = {dim!r} "
                "when vse.word_vectors is 'pretrained'"
            )


def _image_features(get: Get) -> Iterator[str]:
    weights = get("image_features.weights")
    named = weights in ("random", "imagenet", "") or not isinstance(weights, str)
    if not named and not os.path.isfile(weights):
        yield (
            f"image_features.weights = {weights!r}: no such file; "
            "allowed are random, imagenet or the path of a state dict"
        )


def _sentences(get: Get) -> Iterator[str]:
    encoding = get("sentences.encoding")
    stop_words, wordnet = get("sentences.tfidf.stop_words"), get("sentences.tfidf.wordnet")
    named = stop_words in ("function_words", "none", "") or not isinstance(stop_words, str)
    if not named and not os.path.isfile(stop_words):
        yield (
            f"sentences.tfidf.stop_words = {stop_words!r}: no such file; "
            "allowed are function_words, none or the path of a list"
        )
    if isinstance(wordnet, str) and wordnet and not os.path.isdir(wordnet):
        yield f"sentences.tfidf.wordnet = {wordnet!r}: no such folder"
    word_dim = get("vocabulary.dim") if get("vocabulary.source") == "train" else None
    if encoding == "mean_vector":
        yield from _too_many("sentences.mean_vector.pca", get, word_dim, "vocabulary.dim")
    if encoding == "tfidf":
        terms = get("sentences.tfidf.terms")
        yield from _too_many("sentences.tfidf.pca", get, terms, "sentences.tfidf.terms")
    if encoding == "fisher":
        yield from _too_many("sentences.fisher.ica", get, word_dim, "vocabulary.dim")
        ica, centres = get("sentences.fisher.ica"), get("sentences.fisher.centres")
        dim = word_dim if ica == "none" else ica
        if type(dim) is int and type(centres) is int:
            width = 2 * centres * dim
            made_of = "2 x centres x width of a word vector"
            yield from _too_many("sentences.fisher.pca", get, width, made_of)


def _too_many(key: str, get: Get, width: Any, origin: str) -> Iterator[str]:
    wanted = get(key)
    if type(wanted) is int and type(width) is int and wanted > width >= 1:
        yield f"{key} = {wanted}: must not exceed {width}, that is {origin}"


def _two_branch(get: Get) -> Iterator[str]:
    weights = get("two_branch.weights")
    if isinstance(weights, dict) and weights and all(value == 0 for value in weights.values()):
        yield "two_branch.weights: all are 0; at least one term must have another weight"


def _epochs(get: Get) -> Iterator[str]:
    warmup = get("ranking.warmup_epochs")
    for model in ("vse", "two_branch"):
        epochs = get(f"{model}.training.epochs")
        if isinstance(warmup, int) and isinstance(epochs, int) and warmup >= epochs:
            yield (
                f"ranking.warmup_epochs = {warmup}: "
                f"must be below {model}.training.epochs = {epochs}"
            )
