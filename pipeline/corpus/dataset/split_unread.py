"""Files that are called like lists of splits and are read as none: which these are, and why.

Unless somebody is told, the seed draws splits that were drawn already, and images that were kept
for the test are trained on. Files are looked at and never run: a pickle may do anything.
"""

import re
from collections import defaultdict
from collections.abc import Collection
from pathlib import Path

import numpy as np

from pipeline.corpus.dataset.folder import IMAGE_ENDINGS, Folder, composed
from pipeline.corpus.dataset.split_forms import beginning_of, images_in_file
from pipeline.corpus.dataset.split_names import FOR_ALL, YAML, Known, split_of_list
from pipeline.corpus.dataset.split_values import DATA_ENDINGS, first_lists
from pipeline.corpus.dataset.splits import split_in_path, split_named
from pipeline.corpus.tables import SPLITS
from pipeline.runtime.errors import listing

# Programs and what they say, weights, documents, archives, films: nobody keeps lists in them.
_NO_LISTS = (
    *(".py", ".ipynb", ".sh", ".bat", ".r", ".jl", ".m", ".js", ".ts", ".c", ".cc", ".cpp", ".h"),
    *(".cu", ".java", ".rs", ".go", ".log", ".out", ".err", ".html", ".css", ".pdf", ".tex"),
    *(".doc", ".docx", ".pt", ".pth", ".ckpt", ".safetensors", ".onnx", ".bin", ".zip", ".tar"),
    *(".gz", ".tgz", ".bz2", ".xz", ".7z", ".rar", ".mp4", ".avi", ".mov", ".mkv", ".webm"),
    *(".wav", ".mp3", *IMAGE_ENDINGS),
)
# Data that is no text.
_BINARY = (
    *(".npy", ".npz", ".pkl", ".pickle", ".joblib", ".mat", ".h5", ".hdf5", ".feather"),
    *(".parquet", ".arrow", ".xlsx", ".xlsm", ".xls", ".ods", ".sqlite", ".rds", ".rdata"),
)
_MARKED_UP = (*DATA_ENDINGS, ".toml", ".xml")
_BETWEEN = re.compile(r"""[\t,;:|"'`<>(){}=\[\]]+""")
_WORD = re.compile(r"[^\s,;|=<>{}]+")
_FILE_OF_IMAGE = re.compile(
    rf"\w(?:{'|'.join(map(re.escape, IMAGE_ENDINGS))})(?![\w.])", re.IGNORECASE
)

OTHER_IMAGES = "most of their entries name no image that has captions"
NUMBERS = "they have numbers and name no images"
FORM = "their form is not known"
OTHER_LISTS = "other lists are read"


def unread_splits(
    folder: Folder, known: Known, divided: Collection[str], read: Collection[Path]
) -> tuple[str, ...]:
    """Lines about the files of a folder that are called like lists of splits and are not read.

    Args:
        folder: the files of the user's folder.
        known: the images.
        divided: the splits that have a list which is read.
        read: the files that are read, as lists or as annotations.

    Returns:
        A line for each reason, none without such files. A file of an image's name is not named, nor
        one that lists nothing, such as a program.
    """
    called = {
        file: folder.root / file for file in folder.others if _is_called_so(Path(file), divided)
    }
    images = folder.image_stems if called else frozenset()
    found: dict[str, list[str]] = defaultdict(list)
    for file, path in called.items():
        if path in read or composed(path.stem).lower() in images or not path.is_file():
            continue
        reason = _reason(path, known)
        if reason is not None:
            found[reason].append(file)
    return tuple(f"not read, for {reason}: {listing(found[reason], 3)}" for reason in sorted(found))


def unread_folders(folder: Folder) -> tuple[str, ...]:
    """A line about folders called train, val and test that no image lies in, none for fewer than
    two splits of them, or where no file of them could have a list."""
    places = [
        place
        for place, names in folder.files.items()
        if split_in_path(place) and not all(name.lower().endswith(_NO_LISTS) for name in names)
    ]
    if len({split_in_path(place) for place in places}) < 2:
        return ()
    return (f"not taken for splits: {listing(sorted(places), 3)}, with no image that has captions",)


def _is_called_so(path: Path, divided: Collection[str]) -> bool:
    """Whether a file is called like a list of a split that has none, or like one of all splits."""
    if path.suffix.lower() in _NO_LISTS:
        return False
    split = split_of_list(f"{path.stem}.txt")
    if split is not None:
        return split not in divided
    return FOR_ALL.fullmatch(path.stem) is not None and len(divided) < len(SPLITS)


def _reason(path: Path, known: Known) -> str | None:
    """Why a file that is called like a list is none that divides images; None for one that lists
    nothing, by what is in it."""
    if path.suffix.lower() in _BINARY:
        return None if _has_vectors(path) else FORM
    text = beginning_of(path)
    if "\0" in text:
        return None
    entries = _entries(path, text, known)
    if known.are(entries):
        return OTHER_LISTS
    if entries:
        return NUMBERS if all(map(str.isdecimal, entries)) else OTHER_IMAGES
    lines = [_BETWEEN.split(line) for line in text.splitlines() if line.strip()]
    parts = [part.strip() for line in lines for part in line]
    words = [word for part in parts for word in part.split()]
    if any(word in known for word in {*parts, *words} if word and not word.isdecimal()):
        return FORM
    if _FILE_OF_IMAGE.search(text):
        return OTHER_IMAGES
    below = [word for line in lines[1:] for part in line for word in part.split()]
    if below and all(word.isdecimal() or split_named(word) for word in below):
        return NUMBERS
    splits = {split_named(word) for word in words} - {None}
    return FORM if path.suffix.lower() in _MARKED_UP and len(splits) > 1 else None


def _entries(path: Path, text: str, known: Known) -> list[str]:
    """The entries of a file that lists or divides single words, or texts in JSON; empty for
    anything else."""
    ending = path.suffix.lower()
    if ending not in DATA_ENDINGS or ending in YAML:
        lines = [line.strip("-*+ \t\"',") for line in text.splitlines()]
        lines = [line for line in lines if line and not known.is_comment(line)]
        return lines if all(_WORD.fullmatch(line) for line in lines) else []
    if FOR_ALL.fullmatch(path.stem):
        images = images_in_file(path, known)
        return [name for own in images.values() for name in own] if len(images) > 1 else []
    lists = first_lists(path, text)
    entries = lists[0] if len(lists) == 1 else []
    are_words = all(type(entry) in (str, int) and " " not in str(entry) for entry in entries)
    return [*map(str, entries)] if are_words else []


def _has_vectors(path: Path) -> bool:
    """Whether an array is of numbers with a fraction, such as features of images."""
    if path.suffix.lower() != ".npy":
        return False
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False).dtype.kind == "f"
    except (OSError, ValueError, EOFError):
        return False
