"""CUHK-PEDES (Li et al. 2017): a description is answered by any image of its person, the group."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import pandas as pd
from pydantic import BaseModel, Field

from pipeline.corpus.tables import SPLITS
from pipeline.dataset.annotations import read_annotations
from pipeline.dataset.source import Options, Source, find_annotations, find_image_folder
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.section import Name
from pipeline.runtime.text import Problems, is_inside

SIGNS = ("reid_raw.json", "caption_all.json")
WITH_SPLITS, WITHOUT_SPLITS = "reid_raw.json", "caption_all.json"
IMAGES = "imgs"
HELD_OUT = 1000  # persons, for validation as for test


class _Image(BaseModel):
    id: int  # of the person
    file_path: Name
    split: Literal["train", "val", "test"] | None = None
    captions: list[str]


def read(raw: Path, out: Path, options: Options) -> Source:
    """Read reid_raw.json or caption_all.json: image_id is file_path, group the person's id,
    caption_id `<file_path>#<number>`. Without splits they are the papers': the last 1,000 persons
    by id are for test (Zheng et al. 2020, section 6.1), the 1,000 before for validation."""
    name, remarks = options.corpus.annotations, []
    if name is None and all((raw / file).is_file() for file in (WITH_SPLITS, WITHOUT_SPLITS)):
        name = WITH_SPLITS
        remarks = [f"reading {WITH_SPLITS}, which has the splits, and not {WITHOUT_SPLITS}"]
    path = find_annotations(raw, name, SIGNS)
    hint = f"expected is the format of CUHK-PEDES' {WITH_SPLITS} or {WITHOUT_SPLITS}"
    kind = Annotated[list[_Image], Field(min_length=1)]
    records: list[_Image] = read_annotations(path, kind, hint)
    files = [record.file_path for record in records]
    if all(record.split is None for record in records):
        splits, remark = _papers_splits(path, [record.id for record in records])
        remarks.append(remark)
    else:
        _check_splits(path, records)
        splits = [str(record.split) for record in records]
    groups = [str(record.id) for record in records]
    captions = [
        (f"{record.file_path}#{number}", record.file_path, text)
        for record in records
        for number, text in enumerate(record.captions)
    ]
    return Source(
        root=_image_folder(raw, options.corpus.images, files),
        images=pd.DataFrame({"image_id": files, "split": splits, "group": groups}),
        captions=pd.DataFrame(captions, columns=["caption_id", "image_id", "text"]),
        remarks=tuple(remarks),
    )


def _image_folder(raw: Path, name: str | None, files: Sequence[str]) -> Path:
    """imgs/, unless another folder is named or the file's own paths begin with imgs/."""
    if name is None and (raw / IMAGES).is_dir():
        complete = any(is_inside(file) and (raw / file).is_file() for file in files)
        return raw if complete else raw / IMAGES
    return find_image_folder(raw, name, files)


def _check_splits(path: Path, records: Sequence[_Image]) -> None:
    """Raise WorkbenchError unless every record has a split, and every person one alone."""
    problems = Problems(str(path))
    without = [f"[{n}]" for n, record in enumerate(records) if record.split is None]
    problems.add("records without a split beside others with one", without)
    splits = pd.Series([r.split for r in records]).groupby([r.id for r in records]).nunique()
    problems.add("persons in more than one split, ids", splits.index[splits > 1])
    problems.raise_if_any("a person that is trained on must not be tested on: mend the file")


def _papers_splits(path: Path, persons: Sequence[int]) -> tuple[list[str], str]:
    """The split of every record by its person, and a remark that says so."""
    ordered = sorted(set(persons))
    if len(ordered) <= 2 * HELD_OUT:
        raise WorkbenchError(
            f"{path}: no record has a split, and {len(ordered):,} persons leave none to train on "
            f"when the last {HELD_OUT:,} are for test and the {HELD_OUT:,} before for validation",
            f"give every record a split as in {WITH_SPLITS}: {', '.join(SPLITS)}",
        )
    val, test = ordered[-2 * HELD_OUT], ordered[-HELD_OUT]
    splits = ["test" if n >= test else "val" if n >= val else "train" for n in persons]
    return splits, f"no splits in {path.name}: test from person {test} on, validation from {val} on"
