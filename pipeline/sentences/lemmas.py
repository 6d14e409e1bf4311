"""Words to dictionary forms, by a method that is chosen and recorded, never fallen back to.

Captions have no part-of-speech tags, so a word is tried as noun, verb, adjective and adverb in this
order, and the first of which it is a known form decides: "dogs" is the noun dog, "sat" the verb
sit. "walking" and "men" stay in WordNet, which lists both as nouns. Unknown words stay as they are.
"""

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

from pipeline.runtime.errors import WorkbenchError
from pipeline.sentences.wordnet import PARTS_OF_SPEECH, WordNet, find_wordnet

NAMES = ("wordnet", "lemminflect", "none")

_UNIVERSAL = tuple(pos.upper() for pos in PARTS_OF_SPEECH)  # tags of universaldependencies.org


class Lemmatiser:
    """A rule from lower-case word to lemma, with its results kept.

    `provenance` is its name, one of NAMES, and its origin, whatever else decides about the lemmas;
    equal provenance, equal lemmas.
    """

    def __init__(self, name: str, origin: Mapping[str, str], rule: Callable[[str], str]) -> None:
        self.provenance: dict[str, str] = {"name": name, **origin}
        self._rule = cache(rule)

    def lemma(self, word: str) -> str:
        """The lemma of a lower-case word."""
        return self._rule(word)


def lemmatiser(name: str, wordnet_folder: Path | None) -> Lemmatiser:
    """The lemmatiser called `name`; WorkbenchError when the name is unknown or what it needs is not
    installed. wordnet_folder: where WordNet's files are, None to look for them."""
    if name == "wordnet":
        return _wordnet(WordNet(find_wordnet(wordnet_folder)))
    if name == "lemminflect":
        return _lemminflect()
    if name == "none":
        return Lemmatiser("none", {}, str)
    raise WorkbenchError(f"lemmatiser {name!r}: allowed are {', '.join(NAMES)}")


def _wordnet(files: WordNet) -> Lemmatiser:
    def rule(word: str) -> str:
        for pos in PARTS_OF_SPEECH:
            if files.forms(word, pos):
                return files.lemma(word, pos)
        return word

    return Lemmatiser("wordnet", {"sha256": files.digest}, rule)


def _lemminflect() -> Lemmatiser:
    import lemminflect

    def rule(word: str) -> str:
        found = lemminflect.getAllLemmas(word)  # of its dictionary; it does not guess here
        return next((found[pos][0] for pos in _UNIVERSAL if pos in found), word)

    return Lemmatiser("lemminflect", {"version": lemminflect.__version__}, rule)
