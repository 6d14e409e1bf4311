"""Karpathy's dataset_flickr8k.json, dataset_flickr30k.json, dataset_coco.json, and files like them:
records of images with filename and sentences, whatever the file's name is."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired

import pandas as pd
from pydantic import BeforeValidator, Field
from typing_extensions import TypedDict

from pipeline.corpus.dataset.annotations import check_once, described_source, read_annotations
from pipeline.corpus.dataset.folder import Folder
from pipeline.corpus.dataset.recognise import (
    Found,
    annotation_files,
    few_files,
    first_records,
    values_in_head,
)
from pipeline.corpus.dataset.source import Options, Source, list_raw
from pipeline.corpus.dataset.splits import RESTVAL, as_split
from pipeline.runtime.errors import counted
from pipeline.runtime.section import Name

EXPECTED = "a JSON file of records with filename and sentences, as dataset_flickr8k.json has them"
# and not dataset_info.json, dataset_infos.json, dataset_dict.json, which are Hugging Face's
PUBLISHED = ("dataset.json", "dataset_[!id]*.json")


class _Sentence(TypedDict):
    raw: str
    sentid: NotRequired[int | str | None]  # home-made files have none
    tokens: NotRequired[list[str] | None]


class _Image(TypedDict):
    filename: Name
    filepath: NotRequired[str | None]  # MS-COCO has images in several folders
    split: NotRequired[
        Annotated[Literal["train", "val", "test", "restval"] | None, BeforeValidator(as_split)]
    ]
    sentences: list[_Sentence]


class _Dataset(TypedDict):
    images: Annotated[list[_Image], Field(min_length=1)]


def recognise(folder: Folder) -> list[Found]:
    """JSON files with a list of records that have filename and sentences."""
    published = folder.matching(*PUBLISHED)
    found = []
    for file in few_files(folder, "*.json"):
        record = _first_image(first_records(folder, file))
        if record is not None:
            found.append(
                Found(
                    files=(file,),
                    names=values_in_head(folder, file, "filename"),
                    has_splits="split" in record,
                    is_published=file in published,
                )
            )
    return found


def _first_image(records: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The first record of a file in this form, by the first record of each of its lists."""
    for key in ("images", ""):
        record = records.get(key, {})
        if isinstance(record.get("filename"), str) and isinstance(record.get("sentences"), list):
            return record
    return None


def read(raw: Path, out: Path, options: Options) -> Source:
    """Read a file in Karpathy's form: image_id is filepath/filename (MS-COCO) or filename,
    caption_id the sentid, `<image>#<number>` where there is none. The tokens are the file's; where
    it has none the words are cut later.

    Args:
        raw: the user's folder.
        out: not used; images stay where they are.
        options: corpus.annotations, the file where there are several; corpus.restval, whether
            Karpathy's third part of MS-COCO is trained on or left out.

    Returns:
        The source, its splits those of the records.

    Raises:
        WorkbenchError: no such file, or records without filename or sentences, each named.
    """
    folder = list_raw(raw, options)
    found = annotation_files(
        folder,
        options,
        recognise=recognise,
        expected=EXPECTED,
        published=PUBLISHED,
    )
    file = found.files[0]
    path = raw / file
    hint = "expected is the format of Karpathy's dataset_*.json"
    records: list[_Image]
    if "" in first_records(folder, file):
        records = read_annotations(path, list[_Image], hint)
    else:
        records = read_annotations(path, _Dataset, hint)["images"]
    names = [_name(image) for image in records]
    check_once(path, names)
    splits: dict[str, str | None] = {}
    captions = []
    for name, image in zip(names, records, strict=True):
        split = image.get("split")
        if split == RESTVAL and options.corpus.restval == "drop":
            continue
        splits[name] = "train" if split == RESTVAL else split
        for number, sentence in enumerate(image["sentences"]):
            own = sentence.get("sentid")
            caption_id = f"{name}#{number}" if own is None else str(own)
            words = " ".join(sentence.get("tokens") or ()).lower().split()
            captions.append((caption_id, name, sentence["raw"], words))
    dropped = len(records) - len(splits)
    return described_source(
        folder,
        options,
        splits=splits,
        captions=pd.DataFrame(captions, columns=["caption_id", "image_id", "text", "tokens"]),
        remarks=(f"left out: {counted(dropped, 'image')} of split restval",) if dropped else (),
        lists_in=found.files[0].rpartition("/")[0],
    )


def _name(image: _Image) -> str:
    """The path of an image, as the file names it."""
    folder = image.get("filepath")
    return f"{folder}/{image['filename']}" if folder else image["filename"]
