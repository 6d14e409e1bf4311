"""Words to dictionary forms, by a method that is chosen and recorded, never fallen back to.

Captions have no part-of-speech tags, so a word is tried as noun, verb, adjective and adverb in this
order, and the first of which it is a known form decides: "dogs" is the noun dog, "sat" the verb
sit. "walking" and "men" stay in WordNet, which lists both as nouns. Unknown words stay as they are.
"""

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

from pipeline.features.sentences.wordnet import PARTS_OF_SPEECH, WordNet, find_wordnet

_UNIVERSAL = tuple(pos.upper() for pos in PARTS_OF_SPEECH)  # tags of universaldependencies.org


class Lemmatiser:
    """A rule from lower-case word to lemma, with its results kept.

    Args:
        name: of the rule, as in params.yaml.
        origin: whatever else decides about the lemmas; with the name it is the `provenance`.
        rule: lemma of a word.
    """

    def __init__(self, name: str, origin: Mapping[str, str], rule: Callable[[str], str]) -> None:
        self.provenance: dict[str, str] = {"name": name, **origin}
        self.lemma = cache(rule)


def lemmatiser(name: str, wordnet_folder: Path | None) -> Lemmatiser:
    """The lemmatiser of a name.

    Args:
        name: wordnet, lemminflect or none, which leaves words as they are.
        wordnet_folder: where WordNet's files are, None to look for them.

    Returns:
        The lemmatiser.

    Raises:
        WorkbenchError: for wordnet without WordNet's files.
    """
    if name == "wordnet":
        files = WordNet(find_wordnet(wordnet_folder))

        def first_known(word: str) -> str:
            known = (pos for pos in PARTS_OF_SPEECH if files.forms(word, pos))
            return next((files.lemma(word, pos) for pos in known), word)

        return Lemmatiser(name, {"sha256": files.digest}, first_known)
    if name == "lemminflect":
        import lemminflect

        def first_listed(word: str) -> str:
            lemmas = lemminflect.getAllLemmas(word)  # of its dictionary; it does not guess here
            return next((lemmas[pos][0] for pos in _UNIVERSAL if pos in lemmas), word)

        return Lemmatiser(name, {"version": lemminflect.__version__}, first_listed)
    return Lemmatiser("none", {}, str)
