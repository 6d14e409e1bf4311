"""WordNet's lemmas from WordNet's own files, so that no library stands between them and the terms.

Only `index.<pos>`, whose lines begin with the lemmas, and `<pos>.exc`, the irregular forms, are
needed. The method is WordNet's morphy(7WN) as nltk's WordNetLemmatizer has it: one pass of suffix
rules, every form checked against the index, the shortest taken. Its known oddities (men -> men, us
-> u) are kept, since published dictionaries have them too. nltk's reader is eight times slower.
"""

import hashlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.runtime.text import read_text

LETTERS = {"noun": "n", "verb": "v", "adj": "a", "adv": "r"}
PARTS_OF_SPEECH = tuple(LETTERS)
FILES = tuple(name for pos in PARTS_OF_SPEECH for name in (f"index.{pos}", f"{pos}.exc"))
HINT = (
    "install Debian's wordnet-base, or run python -m nltk.downloader wordnet and unpack its "
    "corpora/wordnet.zip, or set sentences.tfidf.lemmatiser=lemminflect"
)

# What an ending of a form becomes in its lemma, `ending:becomes`.
_ENDINGS = {
    "noun": "s: ses:s ves:f xes:x zes:z ches:ch shes:sh men:man ies:y",
    "verb": "s: ies:y es:e es: ed:e ed: ing:e ing:",
    "adj": "er: est: er:e est:e",
    "adv": "",
}
_RULES = {pos: [rule.split(":") for rule in rules.split()] for pos, rules in _ENDINGS.items()}


class WordNet:
    """Lemmas by the WordNet files in `folder`; WorkbenchError names file and line of what is no
    entry. digest: sha256 over the contents of the files, by which two WordNets are told apart."""

    def __init__(self, folder: Path) -> None:
        paths = [folder / name for name in FILES]
        digests = [hashlib.sha256(path.read_bytes()).digest() for path in paths]
        self.digest = hashlib.sha256(b"".join(digests)).hexdigest()
        self._lemmas: dict[str, frozenset[str]] = {}
        self._irregular: dict[str, dict[str, list[str]]] = {}
        for pos in PARTS_OF_SPEECH:
            self._lemmas[pos] = _index_lemmas(folder / f"index.{pos}", LETTERS[pos])
            lines = (line.split() for _, line in _lines(folder / f"{pos}.exc"))
            self._irregular[pos] = {form: lemmas for form, *lemmas in lines}

    def forms(self, word: str, pos: str) -> list[str]:
        """The lemmas that a word may be a form of.

        Args:
            word: in lower case.
            pos: noun, verb, adj or adv.

        Returns:
            Lemmas, the word itself first if it is one; none for an unknown word.
        """
        others = self._irregular[pos].get(word)
        if others is None:  # an irregular form does not follow the rules as well
            others = [
                word.removesuffix(old) + new for old, new in _RULES[pos] if word.endswith(old)
            ]
        lemmas = self._lemmas[pos]
        return [form for form in dict.fromkeys([word, *others]) if form in lemmas]

    def lemma(self, word: str, pos: str) -> str:
        """The lemma of a word.

        Args:
            word: in lower case.
            pos: noun, verb, adj or adv.

        Returns:
            The shortest of `forms`, of equally short ones the first; an unknown word itself.
        """
        return min(self.forms(word, pos), key=len, default=word)


def find_wordnet(folder: Path | None) -> Path:
    """The folder with WordNet's files: `folder` if given, else the first complete one of
    nltk_data's places and /usr/share/wordnet; WorkbenchError names what is missing."""
    places = [folder] if folder is not None else _places()
    faults = []
    for path in places:
        lacking = [name for name in FILES if not (path / name).is_file()]
        if not lacking:
            return path
        faults.append(f"{path} lacks {listing(lacking)}" if path.is_dir() else f"no {path}")
    raise WorkbenchError(f"WordNet's files not found: {'; '.join(faults)}", HINT)


def _places() -> list[Path]:
    listed = [entry for entry in os.environ.get("NLTK_DATA", "").split(os.pathsep) if entry]
    prefixes = [f"{sys.prefix}{name}/nltk_data" for name in ("", "/share", "/lib")]
    roots = ("/usr/share", "/usr/local/share", "/usr/lib", "/usr/local/lib")
    usual = [os.path.expanduser("~/nltk_data"), *prefixes, *(f"{root}/nltk_data" for root in roots)]
    data = [Path(path, "corpora", "wordnet") for path in [*listed, *usual]]
    return [*data, Path("/usr/share/wordnet")]


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Numbered lines, without empty ones and those of the licence, which begin with a blank."""
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if line.strip() and not line.startswith(" "):
            yield number, line


def _index_lemmas(path: Path, letter: str) -> frozenset[str]:
    """Lemmas of `lemma pos S P pointer*P senses ranked offset*S` (wndb(5WN))."""
    lemmas = set()
    for number, line in _lines(path):
        lemma, *fields = line.split()
        listed = sum(int(field) for field in fields[1:3] if field.isdecimal())
        if fields[:1] != [letter] or len(fields) != 5 + listed:
            message = f"{path}, line {number}: not an entry of WordNet's index"
            raise WorkbenchError(message, HINT)
        lemmas.add(lemma)
    if not lemmas:
        raise WorkbenchError(f"{path}: has no entries", HINT)
    return frozenset(lemmas)
