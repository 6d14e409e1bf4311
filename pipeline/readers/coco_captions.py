"""MS-COCO's own captions_train2017.json and captions_val2017.json (Chen et al. 2015); captions of
its test images were never published. Karpathy's splits are in another file (karpathy_json.py)."""

import re
from pathlib import Path
from typing import Annotated

import pandas as pd
from pydantic import BaseModel, Field

from pipeline.dataset.annotations import read_annotations
from pipeline.dataset.source import Options, Source, find_image_folder, find_in_raw, require_folder
from pipeline.dataset.splits import settled_splits
from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.runtime.section import Name
from pipeline.runtime.text import Problems

SIGNS = ("captions_*20*.json", "annotations/captions_*20*.json")
_NAME = re.compile(r"captions_((train|val)20\d\d)\.json")


class _Image(BaseModel):
    id: int
    file_name: Name


class _Caption(BaseModel):
    id: int
    image_id: int
    caption: str


class _Annotations(BaseModel):
    images: Annotated[list[_Image], Field(min_length=1)]
    annotations: list[_Caption]


def read(raw: Path, out: Path, options: Options) -> Source:
    """Read train2017, val2017, or both: image_id is `<folder>/<file_name>`, caption_id the
    annotation's. With both, training is train2017, held-out val2017; one is cut into all splits."""
    named: dict[str, str | None] = {}
    captions: list[tuple[str, str, str]] = []
    for path, folder, split in _find_files(raw, options.corpus.annotations):
        images, texts = _read_file(path, folder)
        named |= dict.fromkeys(images, split)
        captions += texts
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


def _find_files(raw: Path, name: str | None) -> list[tuple[Path, str, str]]:
    """The annotation files, training first, each with its images' folder such as val2017 and its
    split; name: one of them, or their folder, inside raw."""
    require_folder(raw)
    if name is not None:
        source = find_in_raw(raw, name, "corpus.annotations")
    else:
        source = raw / "annotations" if (raw / "annotations").is_dir() else raw
    paths = sorted(source.iterdir()) if source.is_dir() else [source]
    matches = [(path, _NAME.fullmatch(path.name)) for path in paths if path.is_file()]
    files = [(path, match[1], match[2]) for path, match in matches if match is not None]
    if not files:
        raise WorkbenchError(
            f"{source}: no captions_train2017.json or captions_val2017.json",
            "set raw to the folder that holds annotations/, or name them with corpus.annotations",
        )
    if len({split for _, _, split in files}) < len(files):
        raise WorkbenchError(
            f"{source}: annotations of several years: {listing(path.name for path, *_ in files)}",
            "keep one year's in a folder and name it with corpus.annotations",
        )
    return files


def _read_file(path: Path, folder: str) -> tuple[list[str], list[tuple[str, str, str]]]:
    """The ids of a file's images in `folder`, and the id, image_id and text of its captions."""
    hint = "expected is the format of MS-COCO's captions_train2017.json"
    value: _Annotations = read_annotations(path, _Annotations, hint)
    images, captions = value.images, value.annotations
    names = {image.id: f"{folder}/{image.file_name}" for image in images}
    orphans = [caption.id for caption in captions if caption.image_id not in names]
    problems = Problems(str(path))
    problems.add("captions of images that the file does not list, ids", orphans)
    problems.raise_if_any("mend the file, or download it again")
    texts = [(str(c.id), names[c.image_id], c.caption) for c in captions]
    return list(names.values()), texts
