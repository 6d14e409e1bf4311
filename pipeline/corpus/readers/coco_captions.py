"""Captions in MS-COCO's form (Chen et al. 2015): captions_train2017.json, and files of any name
that have images with id and file_name and annotations with image_id and caption, as those of
nocaps, VizWiz and STAIR. Karpathy's splits of MS-COCO are in another file (karpathy_json.py)."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from pathlib import Path
from typing import Annotated, Any, NotRequired

import pandas as pd
from pydantic import Field
from typing_extensions import TypedDict

from pipeline.corpus.dataset.annotations import (
    caption_ids,
    described_source,
    one_split_each,
    read_annotations,
)
from pipeline.corpus.dataset.cells import SPLIT_COLUMNS, first_of, passed_over
from pipeline.corpus.dataset.conditions import Conditions
from pipeline.corpus.dataset.counted_rows import Rows, counted_rows, may_tell
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
from pipeline.corpus.dataset.splits import (
    check_other_splits,
    split_field,
    split_in_path,
    split_or_rest,
)
from pipeline.corpus.params import CorpusConfig
from pipeline.runtime.errors import listing
from pipeline.runtime.section import Name
from pipeline.runtime.text import Problems

EXPECTED = (
    "JSON in MS-COCO's form: images with id and file_name, annotations with image_id and caption"
)
NAMES = ("file_name", "filename")  # of an image's field; the second in home-made files and KTVIC
PUBLISHED = ("captions_train20??.json", "captions_val20??.json")
_FOLDER = re.compile(r"(?<![a-z])(train|val|test|dev)(20\d\d)?(?![a-z0-9])")


_FIELDS: dict[str, Any] = {  # of a caption that are read
    "id": NotRequired[int | str | None],  # home-made files have none
    "image_id": int | str,
    "caption": NotRequired[str | None],
}
HAS_ROWS = True  # of which corpus.rows keeps some


@dataclass(frozen=True)
class _File:
    """What a file says: of every image its name and its split, of every caption its id, the place
    of its image among them, and its text. cells: by field, what the captions have in those that may
    tell which of them count."""

    images: list[str]
    splits: list[str | None]
    ids: list[str | None]
    places: list[int]
    texts: list[str]
    cells: Mapping[str, Sequence[Any]]

    @property
    def described(self) -> list[str]:
        """The image of every caption."""
        return [self.images[place] for place in self.places]

    def only(self, kept: Sequence[bool]) -> "_File":
        """The file with some of its captions."""
        return replace(
            self,
            ids=list(compress(self.ids, kept)),
            places=list(compress(self.places, kept)),
            texts=list(compress(self.texts, kept)),
        )


def recognise(folder: Folder) -> list[Found]:
    """JSON files with a list of images and one of captions; files of several splits together."""
    published = set(folder.matching(*PUBLISHED))
    names = {}
    has_splits = {}
    for file in few_files(folder, "*.json"):
        path = folder.root / file
        records = first_records(folder, file)
        image = records.get("images") or (record_under(path, "images") if records else {})
        name = first_of(image, NAMES)
        if name is not None and isinstance(image[name], str) and "id" in image:
            caption = records.get("annotations") or record_under(path, "annotations")
            if isinstance(caption.get("caption"), str) and "image_id" in caption:
                names[file] = values_in_head(folder, file, name) or (image[name],)
                has_splits[file] = split_field(image) is not None
    return [
        Found(
            files=files,
            names=tuple(name for file in files for name in names[file]),
            has_splits=len(files) > 1 or has_splits[files[0]],
            is_published=published.issuperset(files),
        )
        for files in files_by_split(names)
    ]


def read(raw: Path, out: Path, options: Options) -> Source:
    """Read a file, or one for each split: the split is the image's (`split`), else that in the
    file's name; caption_id the annotation's id, `<image>#<number>` where there is none, or where
    two files have the same ids. With train and val alone, what is held out is drawn from val; a
    file alone without splits is cut into all.

    Args:
        raw: the user's folder.
        out: not used; images stay where they are.
        options: corpus.annotations, a file or a folder; corpus.rows, which captions count; how
            splits are drawn.

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
    files = {file: _read_file(folder, file, options.corpus) for file in found.files}
    unread = {file: _unread(folder, file) for file in found.files}
    counting = counted_rows(
        str(raw / found.files[0]),
        [_as_rows(own, unread[file]) for file, own in files.items()],
        options.corpus,
    )
    files = {
        file: own.only(kept) for (file, own), kept in zip(files.items(), counting.kept, strict=True)
    }
    words = Counter(split or "" for own in files.values() for split in own.splits)
    others = check_other_splits(words, listing(found.files, 3))
    files = {file: _with_known_splits(own, options.corpus.restval) for file, own in files.items()}
    paths = told_apart(folder, _images_of(files))
    files = {file: _with_paths(own, paths) for file, own in files.items()}
    named = one_split_each(raw, _images_of(files))
    described = [image for own in files.values() for image in own.described]
    ids, renumbered = caption_ids([own.ids for own in files.values()], described)
    texts = [text for own in files.values() for text in own.texts]
    passed = passed_over([name for names in unread.values() for name in names])
    return described_source(
        folder,
        options,
        splits=named,
        captions=pd.DataFrame({"caption_id": ids, "image_id": described, "text": texts}),
        remarks=(*passed, *counting.remarks, *others, *renumbered),
        files=found.files,
    )


def _first_caption(folder: Folder, file: str) -> Mapping[str, Any]:
    """The first caption of a file, with all its fields."""
    first: Mapping[str, Any] = first_records(folder, file).get("annotations") or {}
    return first or record_under(folder.root / file, "annotations")


def _unread(folder: Folder, file: str) -> list[str]:
    """The fields of captions that are not read, such as VizWiz's `is_rejected`."""
    return [name for name in _first_caption(folder, file) if name not in _FIELDS]


def _as_rows(own: _File, unread: Sequence[str]) -> Rows:
    """The captions of a file as `counted_rows` takes them."""
    return Rows(
        images=own.described,
        texts=own.texts,
        caption="caption",
        cells=own.cells,
        names=dict.fromkeys((*_FIELDS, *unread, *own.cells)),
        unread=unread,
    )


def _images_of(files: Mapping[str, _File]) -> list[tuple[str, str | None]]:
    """The images of all files with their splits."""
    return [own for file in files.values() for own in zip(file.images, file.splits, strict=True)]


def _with_known_splits(own: _File, restval: str) -> _File:
    """A file whose splits are train, val, test or None."""
    return replace(own, splits=[split_or_rest(word, restval) for word in own.splits])


def _with_paths(own: _File, paths: Mapping[tuple[str, str], str]) -> _File:
    """A file whose images have their paths as names, where paths has them (`told_apart`)."""
    named = zip(own.images, own.splits, strict=True)
    return replace(own, images=[paths.get((name, split or ""), name) for name, split in named])


def _annotations_kind(
    name: str, split: str, of_captions: Sequence[str], of_images: Sequence[str]
) -> Any:
    """The type of a file's value. name: the field of its images that names their files; split: the
    one that says their splits; of_captions, of_images: further fields of both that are read."""
    fields: dict[str, Any] = dict.fromkeys(of_images, NotRequired[Any])
    fields |= {"id": int | str, name: Name, split: NotRequired[str | None]}
    caption_kind: Any = TypedDict(  # type: ignore[misc]
        "Caption", dict.fromkeys(of_captions, NotRequired[Any]) | _FIELDS
    )
    image_kind: Any = TypedDict("Image", fields)  # type: ignore[misc]
    lists = {
        "images": Annotated[list[image_kind], Field(min_length=1)],
        "annotations": Annotated[list[caption_kind], Field(min_length=1)],
    }
    kind: Any = TypedDict("Annotations", lists)  # type: ignore[misc]
    return kind


def _read_file(folder: Folder, file: str, config: CorpusConfig) -> _File:
    """The images and captions of a file; WorkbenchError for those that do not fit together."""
    path = folder.root / file
    hint = f"expected is {EXPECTED}"
    first = first_records(folder, file).get("images") or record_under(path, "images")
    field = split_field(first) or SPLIT_COLUMNS[0]
    name = first_of(first, NAMES) or NAMES[0]
    telling = [own for own in _first_caption(folder, file) if may_tell(own, config)]
    asked = Conditions.of(config.rows)
    of_images = [own for own in first if asked.have(own) and own not in telling]
    value = read_annotations(path, _annotations_kind(name, field, telling, of_images), hint)
    captions = value["annotations"]
    prefix = _images_folder(path.name, [image[name] for image in value["images"]], folder)
    split = split_in_path(file)
    images: dict[int | str, tuple[str, str | None]] = {}
    twice = []
    for image in value["images"]:
        own = (f"{prefix}{image[name]}", image.get(field) or split)
        if images.setdefault(image["id"], own) != own:
            twice.append(image["id"])
    orphans = [
        caption.get("id") or f"annotations[{number}]"
        for number, caption in enumerate(captions)
        if caption["image_id"] not in images
    ]
    problems = Problems(str(path))
    problems.add("ids of more than one image", twice)
    problems.add("captions of images that the file does not list, ids", orphans)
    problems.raise_if_any("mend the file, or download it again")
    places = {image: place for place, image in enumerate(images)}
    cells = {name: [caption.get(name) for caption in captions] for name in telling}
    for name in of_images:
        own_cells = {image["id"]: image.get(name) for image in value["images"]}
        cells[name] = [own_cells[caption["image_id"]] for caption in captions]
    return _File(
        images=[name for name, _ in images.values()],
        splits=[own for _, own in images.values()],
        ids=[None if caption.get("id") is None else str(caption["id"]) for caption in captions],
        places=[places[caption["image_id"]] for caption in captions],
        texts=[caption.get("caption") or "" for caption in captions],
        cells=cells,
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
