"""Files that say which image a number means: Karpathy's dataset_*.json and id_mapping.json.

Features of the field name images by `imgid`, the number that Karpathy's file gives them, or by
nothing but its order: his .mat files have a column for each image of the dataset.json beside them.
The corpus has the names of their files. So the annotations are looked for where the features lie:
in their folder, in the two above, and where VSE++ keeps them.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.runtime.text import is_text, read_json

NAMES = ("id_mapping.json", "dataset.json", "dataset_*.json")
MAX_BYTES = 1 << 30  # MS-COCO's has 150 MB
PRECOMP = "_precomp"  # f30k_precomp has the features of f30k
NUMBERS = ("imgid", "cocoid")
LOOKED_FOR = "dataset.json, dataset_*.json or id_mapping.json"


@dataclass(frozen=True)
class AnnotatedImage:
    """One image of Karpathy's file."""

    name: str  # filepath/filename
    split: str
    numbers: dict[str, str]  # by their keys, of NUMBERS
    captions: list[list[str]]  # forms of each caption: as written, and its tokens


@dataclass(frozen=True)
class Mapping:
    """What the numbers of a file mean."""

    path: Path
    key: str  # what the numbers are, for a message
    names: dict[str, str]  # of images, by number


def folders_near(path: Path) -> list[Path]:
    """The folder of a file, or a folder itself, the two above it, and of `f30k_precomp` also
    `f30k` beside it."""
    folder = path if path.is_dir() else path.parent
    here = Path(os.path.abspath(folder))
    beside = here.with_name(here.name.removesuffix(PRECOMP) or here.name)
    others = [other for other in (*here.parents[:2], beside) if other != here]
    return [folder, *dict.fromkeys(others)]


def annotation_files(folders: Sequence[Path]) -> list[Path]:
    """The files in these folders whose names are those of annotations, each once."""
    found = [file for folder in folders for name in NAMES for file in sorted(folder.glob(name))]
    return [
        file for file in dict.fromkeys(found) if file.is_file() and file.stat().st_size <= MAX_BYTES
    ]


def mappings(path: Path) -> Iterator[Mapping]:
    """What the numbers in a file of annotations mean; nothing for a file of another form."""
    if path.name == "id_mapping.json":
        content = read_json(path)
        if isinstance(content, list):
            content = dict(enumerate(content))
        if isinstance(content, dict):
            yield from _mapping(path, content)
        return
    images = annotated_images(path) or []
    for key in NUMBERS:
        names = {image.numbers[key]: image.name for image in images if key in image.numbers}
        if images and len(names) == len(images):
            yield Mapping(path, key, names)


def _mapping(path: Path, content: dict[Any, Any]) -> Iterator[Mapping]:
    """Numbers to names, or names to numbers."""
    if all(map(is_text, content.values())):
        yield Mapping(path, "keys", {str(key): name for key, name in content.items()})
    elif all(type(number) is int for number in content.values()):
        yield Mapping(path, "numbers", {str(number): name for name, number in content.items()})


def annotated_images(path: Path) -> list[AnnotatedImage] | None:
    """The images of Karpathy's file in its order; None for a file of another form."""
    state = path.stat()
    return _read_images(path, state.st_size, state.st_mtime_ns)


def karpathy_order(path: Path, shape: tuple[int, ...]) -> tuple[Path, list[str]] | None:
    """The images of the one file of annotations nearby that has as many as a matrix has rows or
    columns.

    Args:
        path: of the matrix.
        shape: (N, D) or (D, N).

    Returns:
        The file of annotations and the names of its N images; None where there is none.

    Raises:
        WorkbenchError: where several files fit that list different images.
    """
    found: dict[Path, list[str]] = {}
    for file in annotation_files(folders_near(path)):
        images = annotated_images(file) or []
        if len(images) in shape:
            found[file] = [image.name for image in images]
    lists = list(found.items())
    if any(names != lists[0][1] for _, names in lists):
        raise WorkbenchError(
            f"{path}: shape {shape} fits the images of {listing(found)}",
            "move all but one of them away",
        )
    return lists[0] if lists else None


@lru_cache(maxsize=4)  # each split of a folder asks again, and MS-COCO's takes seconds
def _read_images(path: Path, size: int, changed: int) -> list[AnnotatedImage] | None:
    content = read_json(path)
    records = content.get("images") if isinstance(content, dict) else None
    if not isinstance(records, list) or not records or not all(map(_is_image, records)):
        return None
    return [_image(record) for record in records]


def _is_image(record: object) -> bool:
    return (
        isinstance(record, dict)
        and is_text(record.get("filename"))
        and is_text(record.get("filepath", ""))
    )


def _image(record: dict[str, Any]) -> AnnotatedImage:
    folder = record.get("filepath", "")
    name = record["filename"]
    sentences = record.get("sentences")
    return AnnotatedImage(
        name=f"{folder}/{name}" if folder else name,
        split=str(record.get("split", "")),
        numbers={key: str(record[key]) for key in NUMBERS if type(record.get(key)) in (int, str)},
        captions=[_forms(one) for one in sentences] if isinstance(sentences, list) else [],
    )


def _forms(sentence: object) -> list[str]:
    """A caption as it was written, and its tokens joined, where they are there."""
    if not isinstance(sentence, dict):
        return []
    raw = sentence.get("raw")
    tokens = sentence.get("tokens")
    forms = [str(raw)] if is_text(raw) else []
    if isinstance(tokens, list) and all(map(is_text, tokens)):
        forms.append(" ".join(tokens))
    return forms
