"""Persons and their descriptions: CUHK-PEDES (Li et al. 2017), ICFG-PEDES, RSTPReid and files like
them. A description is answered by any image of its person, the group."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal, NotRequired

import pandas as pd
from pydantic import AliasChoices, BeforeValidator, Field
from typing_extensions import TypedDict

from pipeline.corpus.dataset.annotations import check_once, described_source, read_annotations
from pipeline.corpus.dataset.cells import passed_over
from pipeline.corpus.dataset.folder import Folder
from pipeline.corpus.dataset.recognise import (
    PERSON_PATHS,
    Found,
    annotation_files,
    are_persons,
    few_files,
    first_records,
    values_in_head,
)
from pipeline.corpus.dataset.source import Options, Source, list_raw
from pipeline.corpus.dataset.splits import as_split
from pipeline.corpus.tables import SPLITS
from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.runtime.section import Name
from pipeline.runtime.text import Problems

EXPECTED = "a JSON file of records with id, file_path (or img_path) and captions, as reid_raw.json"
PUBLISHED = ("reid_raw.json", "icfg-pedes.json", "data_captions.json", "caption_all.json")
HELD_OUT = 1000  # persons, for validation as for test
_READ = ("id", "split", "captions", "processed_tokens")  # the tokens are those of the captions


class _Image(TypedDict):
    id: int  # of the person
    path: Annotated[Name, Field(validation_alias=AliasChoices(*PERSON_PATHS))]
    split: NotRequired[Annotated[Literal["train", "val", "test"] | None, BeforeValidator(as_split)]]
    captions: list[str]


def recognise(folder: Folder) -> list[Found]:
    """JSON files that are a list of records of persons."""
    found = []
    for file in few_files(folder, "*.json"):
        record = first_records(folder, file).get("", {})
        if are_persons(folder, file):
            key = next(key for key in PERSON_PATHS if key in record)
            found.append(
                Found(
                    files=(file,),
                    names=values_in_head(folder, file, key),
                    has_splits="split" in record,
                    is_published=file.rpartition("/")[2].lower() in PUBLISHED[:-1],
                )
            )
    return found


def read(raw: Path, out: Path, options: Options) -> Source:
    """Read a file of records: image_id is file_path or img_path, group the person's id, caption_id
    `<image_id>#<number>`. Where train and test alone are named, val is drawn from train by person.
    Without splits they are the papers' of CUHK-PEDES: the last 1,000 persons by id are for test
    (Zheng et al. 2020, section 6.1), the 1,000 before for validation.

    Args:
        raw: the user's folder.
        out: not used; images stay where they are.
        options: corpus.annotations, the file where there are several; how val is drawn.

    Returns:
        The source, all images of a person in one group.

    Raises:
        WorkbenchError: no such file, records without their fields, a person in two splits, records
            of which only some have a split, or, for the papers' splits, too few persons or none
            with several images.
    """
    folder = list_raw(raw, options)
    found = annotation_files(
        folder,
        options,
        recognise=recognise,
        expected=EXPECTED,
        published=PUBLISHED,
    )
    remarks = []
    others = [find for find in recognise(folder) if find != found]
    if others and options.corpus.annotations is None:
        reason = ", which has the splits," if found.has_splits else ""
        remarks.append(f"reading {found}{reason} and not {listing(others)}")
    path = raw / found.files[0]
    own = first_records(folder, found.files[0]).get("", {})
    remarks += passed_over([name for name in own if name not in (*_READ, *PERSON_PATHS)])
    kind = Annotated[list[_Image], Field(min_length=1)]
    records: list[_Image] = read_annotations(path, kind, f"expected is {EXPECTED}")
    check_once(path, (record["path"] for record in records))
    if all(record.get("split") is None for record in records):
        splits, remark = _papers_splits(raw, found.files[0], [record["id"] for record in records])
        remarks.append(remark)
    else:
        _check_splits(path, records)
        splits = [str(record.get("split")) for record in records]
    files = [record["path"] for record in records]
    captions = [
        (f"{record['path']}#{number}", record["path"], text)
        for record in records
        for number, text in enumerate(record["captions"])
    ]
    return described_source(
        folder,
        options,
        splits=dict(zip(files, splits, strict=True)),
        captions=pd.DataFrame(captions, columns=["caption_id", "image_id", "text"]),
        groups={record["path"]: str(record["id"]) for record in records},
        remarks=remarks,
        files=found.files,
    )


def _check_splits(path: Path, records: Sequence[_Image]) -> None:
    """Raise WorkbenchError unless every record has a split, and every person one alone."""
    problems = Problems(str(path))
    without = [
        f"[{number}]" for number, record in enumerate(records) if record.get("split") is None
    ]
    problems.add("records without a split beside others with one", without)
    named = pd.Series([record.get("split") for record in records])
    splits = named.groupby([record["id"] for record in records]).nunique()
    problems.add("persons in more than one split, ids", splits.index[splits > 1])
    problems.raise_if_any("a person that is trained on must not be tested on: mend the file")


def _papers_splits(raw: Path, file: str, persons: Sequence[int]) -> tuple[list[str], str]:
    """The split of every record by its person, and a remark that says so."""
    ordered = sorted(set(persons))
    fault = ""
    if len(ordered) == len(persons):
        fault = "no id is there twice, as those of persons with several images are"
    elif len(ordered) <= 2 * HELD_OUT:
        fault = (
            f"{len(ordered):,} persons leave none to train on when the last {HELD_OUT:,} are for "
            f"test and the {HELD_OUT:,} before for validation"
        )
    if fault:
        raise WorkbenchError(
            f"{raw / file}: no record has a split, and {fault}",
            f"give every record a split: {', '.join(SPLITS)}; or, where id is no person's, set "
            f"dataset: records_json and corpus.annotations: {file}",
        )
    val = ordered[-2 * HELD_OUT]
    test = ordered[-HELD_OUT]
    splits = [
        "test" if person >= test else "val" if person >= val else "train" for person in persons
    ]
    return splits, f"no splits in {file}: test from person {test} on, validation from {val} on"
