"""What lists of splits call the images, the splits and themselves; split_forms.py reads them."""

import re
from collections.abc import Collection, Iterable, Mapping
from urllib.parse import unquote

from pipeline.corpus.dataset.folder import IMAGE_ENDINGS, with_slashes, without_ending
from pipeline.corpus.dataset.splits import SPLIT_WORDS_OF, is_rest, split_named, splits_in_path
from pipeline.runtime.errors import WorkbenchError

JSON_LINES = (".jsonl", ".jsonlines", ".ndjson")  # a value on each line
YAML = (".yaml", ".yml")
LIST_ENDINGS = (".txt", ".lst", ".list", ".md", ".csv", ".tsv", ".json", *JSON_LINES, *YAML)
NUMBERS_OF_CELEBA = {"0": "train", "1": "val", "2": "test"}
NUMBERED_COLUMNS = ("split", "partition")  # in which numbers stand for splits
# What lists are called beside the word for a split: train_images.txt, trainlist01.txt.
_WHAT = (
    "images?|imgs?|photos?|pictures?|files?|filenames?|names?|ids?|keys?|lists?|sets?|splits?|"
    "index|indices|idx|data|samples?|labels?|annotations?|classes"
)
_LISTS = {
    split: re.compile(
        rf"(.*[^a-z])?({_WHAT})*({'|'.join(words)})([^a-z]*({_WHAT}))*[^a-z]*", re.DOTALL
    )
    for split, words in SPLIT_WORDS_OF.items()
}
# What a file for all splits is called, without its ending.
FOR_ALL = re.compile(r"(.*[._-])?(splits?|partitions?|subsets?|folds?)([._-].*)?", re.IGNORECASE)

Images = dict[str, list[str]]  # by split


class Known:
    """The names of images that are known, as lists may write them."""

    def __init__(self, names: Iterable[str]) -> None:
        names = list(names)
        self._stems = frozenset(map(list_stem, names))
        self._numbers = frozenset(map(without_zeros, self._stems))
        self._have_signs = any("/#" in f"/{with_slashes(name)}" for name in names)

    def __contains__(self, entry: str) -> bool:
        stem = list_stem(entry)
        return stem in self._stems or (stem.isdecimal() and without_zeros(stem) in self._numbers)

    def is_comment(self, line: str) -> bool:
        """Whether a line of a list is a comment, for it begins with `#` as no image's path does."""
        return line.startswith("#") and not (self._have_signs and line in self)

    def are_in(self, images: Mapping[str, Collection[str]]) -> bool:
        """Whether most images of all splits are known."""
        return self.are([name for own in images.values() for name in own])

    def are(self, entries: Collection[str], few: bool = False) -> bool:
        """Whether most entries of a list name images that are known.

        Args:
            entries: of the list, with or without their endings.
            few: whether all have endings of images, and fewer than half, but some, are known.

        Returns:
            Whether they do.
        """
        number = sum(entry in self for entry in entries)
        if few:
            are_files = all(entry.lower().endswith(IMAGE_ENDINGS) for entry in entries)
            return number > 0 and number * 2 <= len(entries) and are_files
        return number * 2 > len(entries)


def list_stem(name: str) -> str:
    """The last part of an image's name without its ending, in lower case, its blanks not as an
    address of the web has them."""
    return without_ending(unquote(with_slashes(name).rpartition("/")[2]))


def without_zeros(stem: str) -> str:
    """A number without the zeros before it; any other name as it is."""
    return (stem.lstrip("0") or "0") if stem.isdecimal() else stem


def split_of_list(name: str) -> str | None:
    """The split whose images a list has by its own name, such as `train_images.txt`.

    Args:
        name: of a file without its folder, or a key of JSON.

    Returns:
        The split; None for a name that says none, or several, such as `train_val.txt`.
    """
    stem = name.lower()
    ending = next((own for own in LIST_ENDINGS if stem.endswith(own)), "")
    stem = stem.removesuffix(ending)
    if not ending and "." in stem:
        return None
    found = [split for split, pattern in _LISTS.items() if pattern.fullmatch(stem)]
    return found[0] if len(found) == 1 and len(splits_in_path(stem)) < 2 else None


def unsaid(what: str) -> WorkbenchError:
    """The error for numbers in the place of words for splits."""
    return WorkbenchError(
        f"{what}, and which are for training is not said",
        "write train, val and test; or name other lists by corpus.split_files in params.yaml",
    )


def known_word(cell: str) -> str:
    """The split that a cell names, or Karpathy's fourth; "" for any other cell."""
    return word_of(cell) if split_named(cell) is not None or is_rest(cell) else ""


def word_of(cell: str) -> str:
    """A cell that says a split: train, val or test where it means that, else its own word."""
    return split_named(cell) or cell.strip()
