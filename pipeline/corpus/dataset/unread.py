"""Files of data that no reader read and no line named: a user must know that they were not read.

A file of captions or splits of an unknown form would else be passed over without a word. Files are
looked at and never run, and of a large folder few are looked at.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

from pipeline.corpus.dataset.folder import Folder, composed, without_ending
from pipeline.corpus.dataset.recognise import files_left
from pipeline.corpus.dataset.source import Source
from pipeline.corpus.dataset.split_forms import beginning_of
from pipeline.corpus.dataset.split_names import Known
from pipeline.corpus.dataset.splits import split_in_path
from pipeline.runtime.errors import listing

ENDINGS = (
    *(".txt", ".csv", ".tsv", ".json", ".jsonl", ".jsonlines", ".ndjson", ".xml", ".yaml", ".yml"),
    *(".lst", ".list", ".token", ".tsv000", ".csv000", ".xlsx", ".xls", ".ods", ".parquet"),
    *(".arrow", ".feather", ".mat", ".npy", ".npz", ".pkl", ".pickle", ".joblib", ".h5", ".hdf5"),
    *(".db", ".sqlite", ".sqlite3", ".rds", ".sql"),
)
TEXTS = ENDINGS[: ENDINGS.index(".xlsx")]
DEEPEST = 4  # folders between raw and a file, as for tables of captions
LOOKED_AT = 40  # files that are looked into
FEWEST = 2  # images that a file names, unless there are fewer
# What says something of the data and holds none of it, without its ending.
_ABOUT = re.compile(
    r"(read[_-]?me|licen[cs]e|copying|notice|authors|citation|change(log|s)|requirements|environment"
    r"|setup|package(-lock)?|pyproject|dvc|params|dataset_infos?|dataset_dict|state|thumbs"
    r"|sha256sums?|md5sums?|checksums?)([._-].*)?",
    re.IGNORECASE,
)
_BETWEEN = re.compile(r"""[\s,:;|"'`<>(){}=\[\]]+""")


def with_unread(source: Source, but: Collection[str | None] = ()) -> Source:
    """A source that says which files of data in the user's folder were not read.

    Args:
        source: what a reader read; where it does not say of which folder, it stays as it is.
        but: files that are read for other things, as paths inside the folder.

    Returns:
        The source with a line about files that name its images, and one about all others, none
        without any.
    """
    folder = source.folder
    if folder is None:
        return source
    said = files_left(folder, source.files) if source.files else []
    files = unread_files(folder, {*source.files, *said, *filter(None, but)}, source.remarks)
    if not files:
        return source
    naming = naming_images(folder, files, source.images["image_id"].tolist())
    others = [file for file in files if file not in naming]
    lines = [f"not read, though it names images: {listing(naming, 3)}"] if naming else []
    lines += [f"not read: {listing(others, 3)}"] if others else []
    return replace(source, remarks=(*source.remarks, *lines))


def unread_files(folder: Folder, read: Collection[str], remarks: Sequence[str] = ()) -> list[str]:
    """The files of data that were neither read nor named.

    Args:
        folder: the files of the user's folder.
        read: those that were read, as paths inside it.
        remarks: lines that name files.

    Returns:
        Paths inside the folder, those whose names say splits first. A file of an image's name
        belongs to this image, and is left out.
    """
    candidates = [
        file
        for file in folder.others
        if file.lower().endswith(ENDINGS)
        and file not in read
        and file.count("/") <= DEEPEST
        and not _ABOUT.fullmatch(Path(file).stem)
    ]
    if not candidates:
        return []
    said = "\n".join(remarks)
    words = {word.rstrip(".") for word in _BETWEEN.split(said)}
    left = [
        file
        for file in candidates
        if not _is_of_image(file, folder.image_stems)
        and file not in words
        and not (" " in file and file in said)
    ]
    return sorted(left, key=lambda file: split_in_path(file) is None)


def _is_of_image(file: str, images: Collection[str]) -> bool:
    """Whether a file is called like an image, with or without the image's ending: `1.json`,
    `1.jpg.json`, `1.caption.txt`."""
    parts = composed(file.rpartition("/")[2]).split(".")
    names = (".".join(parts[:number]) for number in range(1, len(parts)))
    return any(without_ending(name) in images for name in names)


def naming_images(folder: Folder, files: Sequence[str], images: Collection[str]) -> list[str]:
    """The files that name images which are known, by their beginnings.

    Args:
        folder: the files of the user's folder.
        files: some of them; the first LOOKED_AT texts among them are looked into.
        images: the images, with or without folders and endings.

    Returns:
        Those files. A number alone names no image: it may be any.
    """
    texts = [file for file in files if file.lower().endswith(TEXTS)][:LOOKED_AT]
    known = Known(images) if texts else Known(())
    return [file for file in texts if _names_images(folder.root / file, known, len(images))]


def _names_images(path: Path, known: Known, number: int) -> bool:
    """Whether a text names some of the images."""
    if not path.is_file():
        return False
    try:
        words = set(_BETWEEN.split(beginning_of(path)))
    except OSError:
        return False
    named = {word for word in words if word and not word.isdecimal() and word in known}
    return len(named) >= min(FEWEST, number)
