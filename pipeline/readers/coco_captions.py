"""MS-COCO's own captions_train2017.json and captions_val2017.json (Chen et al. 2015).

The captions of its test images were never published; Karpathy's splits, on which most figures
stand, are in another file (karpathy_json.py).
"""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from pipeline.dataset.source import Options, Source, find_image_folder, find_in_raw
from pipeline.dataset.splits import settled_splits
from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.runtime.text import Problems, is_text, read_json

SIGNS = ("captions_*20*.json", "annotations/captions_*20*.json")
_NAME = re.compile(r"captions_((train|val)20\d\d)\.json")
EXPECTED = "expected is the format of MS-COCO's captions_train2017.json"


class Annotations(NamedTuple):
    """A file of annotations, its images' folder such as val2017, and its split."""

    path: Path
    folder: str
    split: str


def read(raw: Path, out: Path, options: Options) -> Source:
    """Read the captions of train2017, of val2017, or of both.

    image_id is `<folder>/<file_name>`, caption_id the annotation's id. With both files training is
    train2017, and the held-out images are drawn from val2017; with one all splits are drawn from it
    (see settled_splits).

    Args:
        raw: folder of the annotations, or of a folder `annotations`, and of the images.
        out: nothing is written to it.
        options: which files to take, the numbers of held-out images and the seed.

    Raises:
        WorkbenchError: text that is not JSON, records with missing or ill-typed fields, captions of
            images that their file does not list.
    """
    named: dict[str, str | None] = {}
    captions: list[tuple[str, str, str]] = []
    for file in find_files(raw, options.corpus.annotations):
        files = _read_file(file, captions)
        named |= dict.fromkeys(files, file.split)
    splits, remarks = settled_splits(named, options)
    return Source(
        root=find_image_folder(raw, options.corpus.images, list(named)),
        images=pd.DataFrame(splits.items(), columns=["image_id", "split"]),
        captions=pd.DataFrame(
            [caption for caption in captions if caption[1] in splits],
            columns=["caption_id", "image_id", "text"],
        ),
        remarks=remarks,
    )


def find_files(raw: Path, name: str | None) -> list[Annotations]:
    """The annotation files in raw or raw/annotations, training first.

    name: one of them, or their folder, inside raw. Raises WorkbenchError when there are none, or
    those of several years.
    """
    if not raw.is_dir():
        raise WorkbenchError(f"raw = {str(raw)!r}: not a folder", "set raw in params.yaml")
    if name is not None:
        place = find_in_raw(raw, name, "corpus.annotations")
    else:
        place = raw / "annotations" if (raw / "annotations").is_dir() else raw
    paths = sorted(place.iterdir()) if place.is_dir() else [place]
    matches = [(path, _NAME.fullmatch(path.name)) for path in paths if path.is_file()]
    found = [Annotations(path, match[1], match[2]) for path, match in matches if match is not None]
    if not found:
        raise WorkbenchError(
            f"{place}: no captions_train2017.json or captions_val2017.json",
            "set raw to the folder that holds annotations/, or name them with corpus.annotations",
        )
    if len({file.split for file in found}) < len(found):
        raise WorkbenchError(
            f"{place}: annotations of several years: {listing(file.path.name for file in found)}",
            "keep one year's in a folder and name it with corpus.annotations",
        )
    return found


def _read_file(file: Annotations, captions: list[tuple[str, str, str]]) -> list[str]:
    """The image ids of a file; its captions are added to `captions`."""
    images, annotations = _records(file.path)
    problems = Problems(str(file.path))
    faults = [*_image_faults(images), *_annotation_faults(annotations)]
    problems.add("faulty fields", faults)
    problems.raise_if_any(EXPECTED)
    names = {record["id"]: f"{file.folder}/{record['file_name']}" for record in images}
    twice = [number for number, n in Counter(record["id"] for record in images).items() if n > 1]
    problems.add("image ids more than once", twice)
    shared = [name for name, n in Counter(names.values()).items() if n > 1]
    problems.add("file names of more than one image", shared)
    orphans = [record["id"] for record in annotations if record["image_id"] not in names]
    problems.add("captions of images that the file does not list, ids", orphans)
    problems.raise_if_any("mend the file, or download it again")
    for record in annotations:
        captions.append((str(record["id"]), names[record["image_id"]], record["caption"]))
    return list(names.values())


def _records(path: Path) -> tuple[list[Any], list[Any]]:
    value = read_json(path)
    images, annotations = (
        value.get(key) if isinstance(value, dict) else None for key in ("images", "annotations")
    )
    if not isinstance(images, list) or not isinstance(annotations, list) or not images:
        raise WorkbenchError(f"{path}: no lists named 'images' and 'annotations'", EXPECTED)
    return images, annotations


def _image_faults(records: list[Any]) -> Iterator[str]:
    for number, record in enumerate(records):
        place = f"images[{number}]"
        if not isinstance(record, dict):
            yield f"{place} is not an object"
            continue
        if type(record.get("id")) is not int:  # True is an int to isinstance
            yield f"{place}.id is not a whole number"
        if not is_text(record.get("file_name")) or not record["file_name"]:
            yield f"{place}.file_name is not a name"


def _annotation_faults(records: list[Any]) -> Iterator[str]:
    for number, record in enumerate(records):
        place = f"annotations[{number}]"
        if not isinstance(record, dict):
            yield f"{place} is not an object"
            continue
        for key in ("id", "image_id"):
            if type(record.get(key)) is not int:
                yield f"{place}.{key} is not a whole number"
        if not is_text(record.get("caption")):
            yield f"{place}.caption is not text"
