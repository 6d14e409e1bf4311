"""WordNet's lemmas from WordNet's own files, so that no library stands between them and the terms.

Of WordNet only two kinds of files are needed: `index.<pos>`, whose lines begin with the lemmas, and
`<pos>.exc`, the irregular forms. The method is WordNet's morphy(7WN) as nltk's WordNetLemmatizer
has it: one pass of suffix rules, every form checked against the index, the shortest taken. Its
known oddities (men -> men, us -> u) are kept, since published dictionaries have them too.

nltk's reader gives the same lemmas as fast, but takes eight times as long to load, five times the
memory, and needs WordNet's `data` files and a `lexnames` that Debian's wordnet-base does not have
(docs/benchmarks.md).
"""

import hashlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from pipeline.runtime.errors import WorkbenchError, listing

PARTS_OF_SPEECH = ("noun", "verb", "adj", "adv")
FILES = tuple(name for pos in PARTS_OF_SPEECH for name in (f"index.{pos}", f"{pos}.exc"))
MAX_BYTES = 64 << 20  # of one file; thirteen times the largest, WordNet 3.0's index.noun
HINT = (
    "install Debian's wordnet-base, or run python -m nltk.downloader wordnet and unpack its "
    "corpora/wordnet.zip, or set sentences.tfidf.lemmatiser=lemminflect"
)

_LETTERS = {"noun": "n", "verb": "v", "adj": "a", "adv": "r"}
_RULES: dict[str, tuple[tuple[str, str], ...]] = {
    "noun": (
        ("s", ""),
        ("ses", "s"),
        ("ves", "f"),
        ("xes", "x"),
        ("zes", "z"),
        ("ches", "ch"),
        ("shes", "sh"),
        ("men", "man"),
        ("ies", "y"),
    ),
    "verb": (
        ("s", ""),
        ("ies", "y"),
        ("es", "e"),
        ("es", ""),
        ("ed", "e"),
        ("ed", ""),
        ("ing", "e"),
        ("ing", ""),
    ),
    "adj": (("er", ""), ("est", ""), ("er", "e"), ("est", "e")),
    "adv": (),
}


class WordNet:
    """Lemmas by the WordNet files in `folder`.

    digest: sha256 over the contents of the files, by which two WordNets are told apart.
    Raises WorkbenchError naming file and line when one is missing, too large or malformed.
    """

    def __init__(self, folder: Path) -> None:
        self._lemmas: dict[str, frozenset[str]] = {}
        self._exceptions: dict[str, dict[str, list[str]]] = {}
        digest = hashlib.sha256()
        for pos in PARTS_OF_SPEECH:
            index, exceptions = _File(folder / f"index.{pos}"), _File(folder / f"{pos}.exc")
            for file in (index, exceptions):
                digest.update(hashlib.sha256(file.content).digest())
            self._lemmas[pos] = frozenset(_index_lemmas(index, _LETTERS[pos]))
            self._exceptions[pos] = dict(_irregular_forms(exceptions))
            if not self._lemmas[pos]:
                raise WorkbenchError(f"{index.path}: has no entries", HINT)
        self.digest = digest.hexdigest()

    def forms(self, word: str, pos: str) -> list[str]:
        """The lemmas `word` may be a form of, itself first if it is one; empty when unknown.

        pos: noun, verb, adj or adv.
        """
        others = self._exceptions[pos].get(word)
        if others is None:  # an irregular form does not follow the rules as well
            others = [
                word.removesuffix(old) + new for old, new in _RULES[pos] if word.endswith(old)
            ]
        lemmas = self._lemmas[pos]
        return [form for form in dict.fromkeys([word, *others]) if form in lemmas]

    def lemma(self, word: str, pos: str) -> str:
        """The shortest of `forms`, of equally short ones the first; an unknown word itself."""
        return min(self.forms(word, pos), key=len, default=word)


def find_wordnet(folder: Path | None) -> Path:
    """The folder with WordNet's files: `folder` if given, else the first complete one of
    nltk_data's places and /usr/share/wordnet.

    Raises WorkbenchError naming what is missing, and where it was looked for.
    """
    places = [folder] if folder is not None else _places()
    for place in places:
        if not _missing(place):
            return place
    absent = [place for place in places if not place.is_dir()]
    partial = [f"{p} lacks {listing(_missing(p))}" for p in places if p not in absent]
    nowhere = [f"no such folder: {listing(absent, len(absent))}"] if absent else []
    raise WorkbenchError(
        f"WordNet's files not found: {'; '.join(partial + nowhere)}", _way_out(places)
    )


def _places() -> list[Path]:
    given = [Path(entry) for entry in os.environ.get("NLTK_DATA", "").split(os.pathsep) if entry]
    prefixes = [
        f"{sys.prefix}/{name}" for name in ("nltk_data", "share/nltk_data", "lib/nltk_data")
    ]
    roots = ("/usr/share", "/usr/local/share", "/usr/lib", "/usr/local/lib")
    usual = [os.path.expanduser("~/nltk_data"), *prefixes, *(f"{root}/nltk_data" for root in roots)]
    data = [*given, *map(Path, usual)]
    return [*(place / "corpora" / "wordnet" for place in data), Path("/usr/share/wordnet")]


def _way_out(places: list[Path]) -> str:
    archives = [place.parent / "wordnet.zip" for place in places]
    for archive in filter(Path.is_file, archives):  # as nltk's downloader leaves it
        return f"unpack it: python -m zipfile -e {archive} {archive.parent}"
    return HINT


def _missing(place: Path) -> list[str]:
    return [name for name in FILES if not (place / name).is_file()]


class _File:
    """A text file of bounded size that names its lines in errors."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with open(path, "rb") as handle:
                self.content = handle.read(MAX_BYTES + 1)
        except OSError as error:
            raise WorkbenchError(f"{path}: {error.strerror}", HINT) from None
        if len(self.content) > MAX_BYTES:
            raise WorkbenchError(f"{path}: larger than {MAX_BYTES >> 20} MiB, not WordNet's", HINT)

    def lines(self) -> Iterator[tuple[int, str]]:
        """Numbered lines, empty ones left out."""
        try:
            text = self.content.decode("utf-8")
        except UnicodeDecodeError as error:
            number = self.content.count(b"\n", 0, error.start) + 1
            raise self.malformed(number, "not UTF-8") from None
        for number, line in enumerate(text.split("\n"), start=1):
            if line.strip():
                yield number, line

    def malformed(self, number: int, problem: str) -> WorkbenchError:
        return WorkbenchError(f"{self.path}, line {number}: {problem}", HINT)


def _index_lemmas(file: _File, letter: str) -> Iterator[str]:
    """Lemmas of `lemma pos S P pointer*P senses ranked offset*S` (wndb(5WN))."""
    for number, line in file.lines():
        if line.startswith(" "):  # the licence
            continue
        fields = line.split()
        try:
            whole = fields[1] == letter and len(fields) == 6 + int(fields[2]) + int(fields[3])
        except (IndexError, ValueError):
            whole = False
        if not whole:
            raise file.malformed(number, "not an entry of WordNet's index")
        yield fields[0]


def _irregular_forms(file: _File) -> Iterator[tuple[str, list[str]]]:
    for number, line in file.lines():
        form, *lemmas = line.split()
        if not lemmas:
            raise file.malformed(number, "needs an irregular form and its lemmas")
        yield form, lemmas
