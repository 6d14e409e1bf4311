"""Karpathy's dataset_flickr8k.json, dataset_flickr30k.json, dataset_coco.json, and files like them:
records of images with filename and sentences, whatever the file's name is."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple, NotRequired

import pandas as pd
from pydantic import Field
from typing_extensions import TypedDict

from pipeline.corpus.dataset.annotations import (
    caption_ids,
    check_once,
    described_source,
    one_split_each,
    read_annotations,
    read_json_lines,
)
from pipeline.corpus.dataset.cells import SPLIT_COLUMNS, is_plain, passed_over
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
    head,
    values_in_head,
)
from pipeline.corpus.dataset.source import Options, Source, list_raw
from pipeline.corpus.dataset.splits import (
    check_other_splits,
    is_rest,
    split_field,
    split_in_path,
    split_or_rest,
)
from pipeline.corpus.params import CorpusConfig
from pipeline.runtime.errors import counted, listing
from pipeline.runtime.section import Name

EXPECTED = "a JSON file of records with filename and sentences, as dataset_flickr8k.json has them"
# and not dataset_info.json, dataset_infos.json, dataset_dict.json, which are Hugging Face's
FILES = ("*.json", "*.jsonl", "*.jsonlines", "*.ndjson")
HAS_ROWS = True  # captions, of which corpus.rows keeps some
PUBLISHED = ("dataset.json", "dataset_[!id]*.json")
# what is read, and Karpathy's numbers
IMAGE_FIELDS = ("filename", "filepath", "sentences", "imgid", "sentids", "cocoid")
SENTENCE_FIELDS = ("raw", "tokens", "sentid", "imgid")


_SENTENCE: dict[str, Any] = {
    "raw": str,
    "sentid": NotRequired[int | str | None],  # home-made files have none
    "tokens": NotRequired[list[str] | None],
}


class _Image(NamedTuple):
    """An image as the file names it, the word for its split, None for none, and its captions with
    the fields of theirs and of the image that may tell which of them count."""

    name: str
    split: str | None
    sentences: list[dict[str, Any]]


def recognise(folder: Folder) -> list[Found]:
    """JSON files with a list of records that have filename and sentences; files of several splits
    together."""
    published = set(folder.matching(*PUBLISHED))
    firsts = {file: _first_image(first_records(folder, file)) for file in few_files(folder, *FILES)}
    records = {file: record for file, record in firsts.items() if record is not None}
    return [
        Found(
            files=files,
            names=tuple(
                name for file in files for name in values_in_head(folder, file, "filename")
            ),
            has_splits=len(files) > 1 or split_field(records[files[0]]) is not None,
            is_published=published.issuperset(files),
        )
        for files in files_by_split(records)
    ]


def _first_image(records: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The first record of a file in this form, by the first record of each of its lists."""
    for key in ("images", ""):
        record = records.get(key, {})
        sentences = record.get("sentences")
        are_records = isinstance(sentences, list) and not any(map(is_plain, sentences))
        if isinstance(record.get("filename"), str) and are_records:
            return record
    return None


def read(raw: Path, out: Path, options: Options) -> Source:
    """Read a file in Karpathy's form, or one for each split: image_id is filepath/filename
    (MS-COCO) or filename, caption_id the sentid, `<image>#<number>` where there is none, or where
    two files have the same ids. The tokens are the file's; where it has none the words are cut
    later.

    Args:
        raw: the user's folder.
        out: not used; images stay where they are.
        options: corpus.annotations, the file where there are several; corpus.rows, which captions
            count; corpus.restval, whether
            Karpathy's third part of MS-COCO is trained on or left out.

    Returns:
        The source, its splits those of the records, else those in the files' names.

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
    read_ones = {file: _read_file(folder, file, options.corpus) for file in found.files}
    unread = {file: _unread(folder, file) for file in found.files}
    counting = counted_rows(
        str(raw / found.files[0]),
        [_as_rows(own, unread[file]) for file, own in read_ones.items()],
        options.corpus,
    )
    rows = {
        file: _only(own, kept)
        for (file, own), kept in zip(read_ones.items(), counting.kept, strict=True)
    }
    words = Counter(own.split or "" for file in rows.values() for own in file)
    others = check_other_splits(words, listing(found.files, 3))
    is_kept = options.corpus.restval == "train"
    kept = [[own for own in file if is_kept or not is_rest(own.split)] for file in rows.values()]
    dropped = sum(map(len, rows.values())) - sum(map(len, kept))
    images = [
        own._replace(split=split_or_rest(own.split, options.corpus.restval))
        for file in kept
        for own in file
    ]
    paths = told_apart(folder, ((own.name, own.split) for own in images))
    names = [paths.get((own.name, own.split or ""), own.name) for own in images]
    described = [name for name, own in zip(names, images, strict=True) for _ in own.sentences]
    ids, renumbered = caption_ids(
        [[_id(one) for own in file for one in own.sentences] for file in kept], described
    )
    sentences = [one for own in images for one in own.sentences]
    captions = {
        "caption_id": ids,
        "image_id": described,
        "text": [one["raw"] for one in sentences],
        "tokens": [" ".join(one.get("tokens") or ()).lower().split() for one in sentences],
    }
    passed = passed_over([name for names in unread.values() for name in names])
    left_out = (f"left out: {counted(dropped, 'image')} of split restval",) if dropped else ()
    return described_source(
        folder,
        options,
        splits=one_split_each(raw, zip(names, (own.split for own in images), strict=True)),
        captions=pd.DataFrame(captions),
        remarks=(*passed, *counting.remarks, *left_out, *others, *renumbered),
        files=found.files,
    )


def _unread(folder: Folder, file: str) -> list[str]:
    """The fields of the first image of a file, and of its first caption, that are not read."""
    record = _first_image(first_records(folder, file)) or {}
    read_ones = (*IMAGE_FIELDS, split_field(record))
    unread = [name for name in record if name not in read_ones]
    sentences: list[Mapping[str, Any]] = record.get("sentences", [])
    sentence = sentences[0] if sentences else {}
    return unread + [f"sentences.{name}" for name in sentence if name not in SENTENCE_FIELDS]


def _as_rows(images: Sequence[_Image], unread: Sequence[str]) -> Rows:
    """The captions of a file as `counted_rows` takes them."""
    rows = [(own.name, sentence) for own in images for sentence in own.sentences]
    found = dict.fromkeys(name for _, sentence in rows for name in sentence)
    others = [name for name in found if name not in _SENTENCE]
    names = (name.removeprefix("sentences.") for name in unread)
    return Rows(
        images=[name for name, _ in rows],
        texts=[sentence["raw"] for _, sentence in rows],
        caption="raw",
        cells={name: [sentence.get(name) for _, sentence in rows] for name in others},
        names=dict.fromkeys((*_SENTENCE, *names, *others)),
        unread=others,
    )


def _only(images: Sequence[_Image], kept: Sequence[bool]) -> list[_Image]:
    """The images of a file with the captions that count, each in their order."""
    left = iter(kept)
    return [
        own._replace(sentences=[sentence for sentence in own.sentences if next(left)])
        for own in images
    ]


def _telling(folder: Folder, file: str, config: CorpusConfig) -> tuple[list[str], list[str]]:
    """The fields of captions, and of images, that may tell which captions count."""
    record = _first_image(first_records(folder, file)) or {}
    sentences: list[Mapping[str, Any]] = record.get("sentences", [])
    sentence = sentences[0] if sentences else {}
    names = sentence if isinstance(sentence, Mapping) else ()  # what is none the check names
    of_captions = [name for name in names if may_tell(name, config)]
    asked = Conditions.of(config.rows)
    of_images = [name for name in record if asked.have(name) and name not in of_captions]
    return of_captions, of_images


def _read_file(folder: Folder, file: str, config: CorpusConfig) -> list[_Image]:
    """The images of a file, of the split in its name where their records say none."""
    path = folder.root / file
    hint = "expected is the format of Karpathy's dataset_*.json"
    lists = first_records(folder, file)
    field = split_field(_first_image(lists) or {}) or SPLIT_COLUMNS[0]
    of_captions, of_images = _telling(folder, file, config)
    sentence_kind: Any = TypedDict(  # type: ignore[misc]
        "Sentence", dict.fromkeys(of_captions, NotRequired[Any]) | _SENTENCE
    )
    fields: dict[str, Any] = dict.fromkeys(of_images, NotRequired[Any]) | {
        "filename": Name,
        "filepath": NotRequired[str | None],  # MS-COCO has images in several folders
        field: NotRequired[str | None],
        "sentences": list[sentence_kind],
    }
    record_kind: Any = TypedDict("Record", fields)  # type: ignore[misc]
    if head(folder, file).lstrip().startswith("{") and "" in lists:
        records = read_json_lines(path, record_kind, hint)
    elif "" in lists:
        records = read_annotations(path, list[record_kind], hint)
    else:
        own = {"images": Annotated[list[record_kind], Field(min_length=1)]}
        kind: Any = TypedDict("Dataset", own)  # type: ignore[misc]
        records = read_annotations(path, kind, hint)["images"]
    split = split_in_path(file)
    images = [
        _Image(
            name=_name(record),
            split=record.get(field) or split,
            sentences=[
                {name: record.get(name) for name in of_images} | sentence
                for sentence in record["sentences"]
            ]
            if of_images
            else record["sentences"],
        )
        for record in records
    ]
    check_once(path, (own.name for own in images))
    return images


def _name(record: Mapping[str, Any]) -> str:
    """The path of an image, as the file names it."""
    folder = record.get("filepath")
    return f"{folder}/{record['filename']}" if folder else record["filename"]


def _id(sentence: Mapping[str, Any]) -> str | None:
    """The id that the file gives a caption."""
    own = sentence.get("sentid")
    return None if own is None else str(own)
