"""Captions in MS-COCO's form (Chen et al. 2015): captions_train2017.json, and files of any name
that have images with id and file_name and annotations with image_id and caption, as those of
nocaps, VizWiz and STAIR. Karpathy's splits of MS-COCO are in another file (karpathy_json.py)."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, NotRequired

import pandas as pd
from pydantic import Field
from typing_extensions import TypedDict

from pipeline.corpus.dataset.annotations import (
    described_source,
    numbered,
    one_split_each,
    read_annotations,
)
from pipeline.corpus.dataset.folder import Folder
from pipeline.corpus.dataset.locate import told_apart
from pipeline.corpus.dataset.recognise import (
    Found,
    annotation_files,
    few_files,
    files_by_split,
    first_records,
    record_under,
    values_in_head,
)
from pipeline.corpus.dataset.source import Options, Source, list_raw
from pipeline.corpus.dataset.splits import split_in_path
from pipeline.runtime.section import Name
from pipeline.runtime.text import Problems

EXPECTED = (
    "JSON in MS-COCO's form: images with id and file_name, annotations with image_id and caption"
)
PUBLISHED = ("captions_train20??.json", "captions_val20??.json")
_FOLDER = re.compile(r"(?<![a-z])(train|val|test|dev)(20\d\d)?(?![a-z0-9])")


class _Image(TypedDict):
    id: int | str
    file_name: Name


class _Caption(TypedDict):
    id: NotRequired[int | str | None]  # home-made files have none
    image_id: int | str
    caption: str


class _Annotations(TypedDict):
    images: Annotated[list[_Image], Field(min_length=1)]
    annotations: Annotated[list[_Caption], Field(min_length=1)]


@dataclass(frozen=True)
class _File:
    """What a file says: the split in its name, its images' names, and of every caption its id, its
    image and its text."""

    split: str | None
    images: list[str]
    ids: list[str | None]
    described: list[str]
    texts: list[str]


def recognise(folder: Folder) -> list[Found]:
    """JSON files with a list of images and one of captions; files of several splits together."""
    published = set(folder.matching(*PUBLISHED))
    names = {}
    for file in few_files(folder, "*.json"):
        path = folder.root / file
        records = first_records(folder, file)
        image = records.get("images") or (record_under(path, "images") if records else {})
        if isinstance(image.get("file_name"), str) and "id" in image:
            caption = records.get("annotations") or record_under(path, "annotations")
            if isinstance(caption.get("caption"), str) and "image_id" in caption:
                names[file] = values_in_head(folder, file, "file_name") or (image["file_name"],)
    return [
        Found(
            files=files,
            names=tuple(name for file in files for name in names[file]),
            has_splits=len(files) > 1,
            is_published=published.issuperset(files),
        )
        for files in files_by_split(names)
    ]


def read(raw: Path, out: Path, options: Options) -> Source:
    """Read a file, or one for each split: the split is that in the file's name, caption_id the
    annotation's id, `<image>#<number>` where there is none, or where two files have the same ids.
    With train and val alone, what is held out is drawn from val; a file alone is cut into all
    splits.

    Args:
        raw: the user's folder.
        out: not used; images stay where they are.
        options: corpus.annotations, a file or a folder; how splits are drawn.

    Returns:
        The source.

    Raises:
        WorkbenchError: no such file, fields that are missing, captions of images that the file does
            not list, or an image in the files of two splits.
    """
    folder = list_raw(raw, options)
    found = annotation_files(
        folder,
        options,
        recognise=recognise,
        expected=EXPECTED,
        published=PUBLISHED,
    )
    files = {file: _read_file(folder, file) for file in found.files}
    paths = told_apart(folder, ((name, own.split) for own in files.values() for name in own.images))
    files = {file: _with_paths(own, paths) for file, own in files.items()}
    named = one_split_each(
        raw, ((name, own.split) for own in files.values() for name in own.images)
    )
    described = [image for own in files.values() for image in own.described]
    ids = [name for own in files.values() for name in own.ids]
    remarks = []
    if len(files) > 1 and _are_shared(own.ids for own in files.values()):
        remarks = ["ids of captions are in several files: captions are numbered image by image"]
        ids = [None] * len(ids)
    if None in ids:
        numbers = numbered(described)
        ids = [own if name is None else name for name, own in zip(ids, numbers, strict=True)]
    texts = [text for own in files.values() for text in own.texts]
    return described_source(
        folder,
        options,
        splits=named,
        captions=pd.DataFrame({"caption_id": ids, "image_id": described, "text": texts}),
        remarks=remarks,
        lists_in=found.files[0].rpartition("/")[0],
    )


def _with_paths(own: _File, paths: Mapping[tuple[str, str], str]) -> _File:
    """A file whose images have their paths as names, where paths has them (`told_apart`)."""
    named = {name: paths.get((name, own.split or ""), name) for name in own.images}
    return replace(
        own,
        images=[named[name] for name in own.images],
        described=[named[name] for name in own.described],
    )


def _are_shared(lists: Iterable[Sequence[str | None]]) -> bool:
    """Whether an id is in more than one list."""
    several = [set(own) - {None} for own in lists]
    return len(set().union(*several)) < sum(map(len, several))


def _read_file(folder: Folder, file: str) -> _File:
    """The images and captions of a file; WorkbenchError for those that do not fit together."""
    path = folder.root / file
    hint = f"expected is {EXPECTED}"
    value: _Annotations = read_annotations(path, _Annotations, hint)
    images = value["images"]
    captions = value["annotations"]
    prefix = _images_folder(path.name, [image["file_name"] for image in images], folder)
    names: dict[int | str, str] = {}
    twice = []
    for image in images:
        name = f"{prefix}{image['file_name']}"
        if names.setdefault(image["id"], name) != name:
            twice.append(image["id"])
    orphans = [
        caption.get("id") or f"annotations[{number}]"
        for number, caption in enumerate(captions)
        if caption["image_id"] not in names
    ]
    problems = Problems(str(path))
    problems.add("ids of more than one image", twice)
    problems.add("captions of images that the file does not list, ids", orphans)
    problems.raise_if_any("mend the file, or download it again")
    return _File(
        split=split_in_path(file),
        images=list(names.values()),
        ids=[None if caption.get("id") is None else str(caption["id"]) for caption in captions],
        described=[names[caption["image_id"]] for caption in captions],
        texts=[caption["caption"] for caption in captions],
    )


def _images_folder(file: str, names: Sequence[str], folder: Folder) -> str:
    """`train2017/` for captions_train2017.json where a folder train2017 has its images, else empty:
    images of several splits may have the same names."""
    match = _FOLDER.search(file)
    if match is None:
        return ""
    for place, files in folder.files.items():
        if place.rpartition("/")[2] == match[0] and not files.isdisjoint(names):
            return f"{match[0]}/"
    return ""
