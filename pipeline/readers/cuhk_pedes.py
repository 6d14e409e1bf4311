"""CUHK-PEDES (Li et al. 2017): pedestrians described in words, several images to a person.

A person is the group: a description is answered by any image of its person.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from pipeline.corpus.tables import SPLITS
from pipeline.dataset.source import Options, Source, find_annotations, find_image_folder
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.text import Problems, is_inside, is_text, read_json

SIGNS = ("reid_raw.json", "caption_all.json")
WITH_SPLITS, WITHOUT_SPLITS = "reid_raw.json", "caption_all.json"
IMAGES = "imgs"
HELD_OUT = 1000  # persons, for validation as for test
EXPECTED = f"expected is the format of CUHK-PEDES' {WITH_SPLITS} or {WITHOUT_SPLITS}"


def read(raw: Path, out: Path, options: Options) -> Source:
    """Read reid_raw.json or caption_all.json.

    image_id is file_path, group the person's id, caption_id `<file_path>#<number>`. Words are cut
    from the captions, because only one of the files has tokens and both should give the same
    corpus. Records without splits get those of the papers: the last 1,000 persons by id are for
    test (Zheng et al. 2020, section 6.1), the 1,000 before for validation.

    Args:
        raw: folder of the annotations and images.
        out: nothing is written to it.
        options: which files to take.

    Raises:
        WorkbenchError: text that is not JSON, records with missing or ill-typed fields, persons in
            more than one split.
    """
    name, remarks = _annotations(raw, options.corpus.annotations)
    path = find_annotations(raw, name, (WITH_SPLITS, WITHOUT_SPLITS))
    records = _records(path)
    splits, drawn = _splits(path, records)
    rows = [(r["file_path"], split, str(r["id"])) for r, split in zip(records, splits, strict=True)]
    files = [file for file, _, _ in rows]
    return Source(
        root=_image_folder(raw, options.corpus.images, files),
        images=pd.DataFrame(rows, columns=["image_id", "split", "group"]),
        captions=pd.DataFrame(
            [caption for record in records for caption in _captions(record)],
            columns=["caption_id", "image_id", "text"],
        ),
        remarks=(*remarks, *drawn),
    )


def _annotations(raw: Path, name: str | None) -> tuple[str | None, tuple[str, ...]]:
    """The file to read, with a remark when both are there: the one that has the splits."""
    if name is None and all((raw / file).is_file() for file in (WITH_SPLITS, WITHOUT_SPLITS)):
        remark = f"reading {WITH_SPLITS}, which has the splits, and not {WITHOUT_SPLITS}"
        return WITH_SPLITS, (remark,)
    return name, ()


def _image_folder(raw: Path, name: str | None, files: Sequence[str]) -> Path:
    """imgs/, unless another folder is named or the file's own paths begin with imgs/."""
    if name is None and (raw / IMAGES).is_dir():
        complete = any(is_inside(file) and (raw / file).is_file() for file in files)
        return raw if complete else raw / IMAGES
    return find_image_folder(raw, name, files)


def _records(path: Path) -> list[Any]:
    """The records, every field checked."""
    records = read_json(path)
    if not isinstance(records, list) or not records:
        raise WorkbenchError(f"{path}: not a list of images", EXPECTED)
    problems = Problems(str(path))
    problems.add("faulty fields", (fault for n, r in enumerate(records) for fault in _faults(n, r)))
    problems.raise_if_any(EXPECTED)
    return records


def _faults(number: int, record: Any) -> Iterator[str]:
    """What is wrong with a record, named by its number from 0 as in `.[n]`."""
    place = f"[{number}]"
    if not isinstance(record, dict):
        yield f"{place} is not an object"
        return
    if type(record.get("id")) is not int:  # True is an int to isinstance
        yield f"{place}.id is not a whole number"
    if not is_text(record.get("file_path")) or not record["file_path"]:
        yield f"{place}.file_path is not a name"
    if record.get("split", SPLITS[0]) not in SPLITS:
        yield f"{place}.split is not one of {', '.join(SPLITS)}"
    captions = record.get("captions")
    if not isinstance(captions, list):
        yield f"{place}.captions is not a list"
        return
    for index, caption in enumerate(captions):
        if not is_text(caption):
            yield f"{place}.captions[{index}] is not text"


def _splits(path: Path, records: Sequence[dict[str, Any]]) -> tuple[list[str], tuple[str, ...]]:
    """The split of every record, and a remark when it is not the file's own."""
    without = [f"[{n}]" for n, record in enumerate(records) if "split" not in record]
    if len(without) == len(records):
        return _papers_splits(path, [record["id"] for record in records])
    problems = Problems(str(path))
    problems.add("records without a split beside others with one", without)
    seen: dict[int, set[str]] = {}
    for record in records:
        seen.setdefault(record["id"], set()).add(record.get("split", ""))
    problems.add("persons in more than one split, ids", (n for n, s in seen.items() if len(s) > 1))
    problems.raise_if_any("a person that is trained on must not be tested on: mend the file")
    return [record["split"] for record in records], ()


def _papers_splits(path: Path, persons: Sequence[int]) -> tuple[list[str], tuple[str, ...]]:
    ordered = sorted(set(persons))
    if len(ordered) <= 2 * HELD_OUT:
        raise WorkbenchError(
            f"{path}: no record has a split, and {len(ordered):,} persons leave none to train on "
            f"when the last {HELD_OUT:,} are for test and the {HELD_OUT:,} before for validation",
            f"give every record a split as in {WITH_SPLITS}: {', '.join(SPLITS)}",
        )
    val, test = ordered[-2 * HELD_OUT], ordered[-HELD_OUT]
    splits = ["test" if n >= test else "val" if n >= val else "train" for n in persons]
    remark = f"no splits in {path.name}: test from person {test} on, validation from {val} on"
    return splits, (remark,)


def _captions(record: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    file = record["file_path"]
    for number, text in enumerate(record["captions"]):
        yield f"{file}#{number}", file, text
