"""Karpathy's dataset_flickr8k.json, dataset_flickr30k.json and dataset_coco.json, whose splits and
tokens most published figures use."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from pipeline.corpus.tables import SPLITS
from pipeline.dataset.source import Options, Source, find_annotations, find_image_folder
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.text import Problems, is_text, read_json

SIGNS = ("dataset_*.json",)


def read(raw: Path, out: Path, options: Options) -> Source:
    """Read a Karpathy JSON file.

    image_id is filepath/filename (MS-COCO) or filename, caption_id the sentid.

    Args:
        raw: folder of the annotations and images.
        out: nothing is written to it.
        options: which files to take, and what becomes of the split restval.

    Raises:
        WorkbenchError: text that is not JSON, records with missing or ill-typed fields.
    """
    path = find_annotations(raw, options.corpus.annotations, SIGNS)
    records = _records(path)
    problems = Problems(str(path))
    problems.add("faulty fields", (fault for n, r in enumerate(records) for fault in _faults(n, r)))
    problems.raise_if_any("expected is the format of Karpathy's dataset_*.json")
    kept = [record for record in records if _split(record, options.corpus.restval) in SPLITS]
    images = [(_file(record), _split(record, options.corpus.restval)) for record in kept]
    root = find_image_folder(raw, options.corpus.images, [file for file, _ in images])
    dropped = len(records) - len(kept)
    return Source(
        root=root,
        images=pd.DataFrame(images, columns=["image_id", "split"]),
        captions=pd.DataFrame(
            [caption for record in kept for caption in _captions(record)],
            columns=["caption_id", "image_id", "text", "tokens"],
        ),
        remarks=(f"left out: {dropped:,} images of split restval",) if dropped else (),
    )


def _records(path: Path) -> list[Any]:
    value = read_json(path)
    records = value.get("images") if isinstance(value, dict) else None
    if not isinstance(records, list) or not records:
        raise WorkbenchError(
            f"{path}: no list named 'images'", "expected is the format of Karpathy's dataset_*.json"
        )
    return records


def _faults(number: int, record: Any) -> Iterator[str]:
    """What is wrong with a record, named by its number from 0 as in `.images[n]`."""
    place = f"images[{number}]"
    if not isinstance(record, dict):
        yield f"{place} is not an object"
        return
    if not is_text(record.get("filename")) or not record["filename"]:
        yield f"{place}.filename is not a name"
    if not is_text(record.get("filepath", "")):
        yield f"{place}.filepath is not a name"
    if record.get("split") not in (*SPLITS, "restval"):
        yield f"{place}.split is not one of {', '.join(SPLITS)}, restval"
    sentences = record.get("sentences")
    if not isinstance(sentences, list):
        yield f"{place}.sentences is not a list"
        return
    for index, sentence in enumerate(sentences):
        yield from _sentence_faults(f"{place}.sentences[{index}]", sentence)


def _sentence_faults(place: str, sentence: Any) -> Iterator[str]:
    if not isinstance(sentence, dict):
        yield f"{place} is not an object"
        return
    if not is_text(sentence.get("raw")):
        yield f"{place}.raw is not text"
    number = sentence.get("sentid")
    if type(number) is not int and not is_text(number):
        yield f"{place}.sentid is not a number"
    tokens = sentence.get("tokens", [])
    if not isinstance(tokens, list) or not all(map(is_text, tokens)):
        yield f"{place}.tokens is not a list of words"


def _split(record: dict[str, Any], restval: str) -> str:
    return restval if record["split"] == "restval" else record["split"]


def _file(record: dict[str, Any]) -> str:
    folder = record.get("filepath", "")
    return f"{folder}/{record['filename']}" if folder else record["filename"]


def _captions(record: dict[str, Any]) -> Iterator[tuple[str, str, str, list[str]]]:
    """Captions with the file's own tokens; where it has none the words are cut later."""
    file = _file(record)
    for sentence in record["sentences"]:
        tokens = " ".join(sentence.get("tokens", [])).lower().split()
        yield str(sentence["sentid"]), file, sentence["raw"], tokens
