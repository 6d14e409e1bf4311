"""Hugging Face's ImageFolder: metadata.csv, .jsonl or .parquet beside the images that it describes.

https://huggingface.co/docs/datasets/image_dataset: a table with a column file_name, its paths from
the table's own folder; the folders train, validation and test are the splits.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pyarrow as pa

from pipeline.corpus.dataset.annotations import described_source, read_json_lines
from pipeline.corpus.dataset.asked import (
    LOOKED_AT,
    Chosen,
    chosen_fields,
    doubted,
    inner_caption,
)
from pipeline.corpus.dataset.cells import (
    CAPTION_COLUMNS,
    SPLIT_COLUMNS,
    caption_columns,
    first_of,
    passed_over,
    plain_texts,
)
from pipeline.corpus.dataset.counted_rows import Rows, counted_rows, may_tell
from pipeline.corpus.dataset.folder import Folder, joined
from pipeline.corpus.dataset.recognise import (
    Found,
    annotation_files,
    first_records,
    first_rows,
    head,
    without_nulls,
)
from pipeline.corpus.dataset.rows import is_caption
from pipeline.corpus.dataset.source import Options, Source, list_raw
from pipeline.corpus.dataset.split_lists import said_by_folders
from pipeline.corpus.dataset.splits import split_in_path
from pipeline.corpus.dataset.table import (
    as_rows,
    captions_in,
    first_images,
    read_cells,
    several_in_cells,
)
from pipeline.corpus.dataset.table_form import (
    Columns,
    Form,
    columns_passed_over,
    find_form,
    has_titles,
)
from pipeline.corpus.params import CorpusConfig
from pipeline.corpus.readers.captions_csv import splits_in_column, with_caption_ids
from pipeline.features.arrays.nested import python_values
from pipeline.features.arrays.parquet_rows import read_batches, read_schema
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.text import Problems

CSV = "metadata.csv"
LINES = "metadata.jsonl"
PARQUET = "metadata.parquet"
IMAGE = "file_name"
DEEPEST = 4  # folders between raw and a table
HAS_ROWS = True  # of which corpus.rows keeps some
_HINTS = {
    LINES: f"each line is a record with {IMAGE} and a caption: mend these lines",
    PARQUET: f"it needs text columns {IMAGE} and one of captions: write it again",
}


class _Loaded(NamedTuple):
    """A table: its rows, and the fields of metadata.csv with their form, or the records of the
    others."""

    rows: Rows
    cells: tuple[pd.DataFrame, Form] | None = None
    records: Sequence[Mapping[str, Any]] = ()


def recognise(folder: Folder) -> list[Found]:
    """All tables of an ImageFolder together: each describes the images of its own folder."""
    tables: dict[str, list[str]] = {}
    for file in folder.matching(CSV, LINES, PARQUET, deepest=DEEPEST):
        place, _, name = file.rpartition("/")
        if name == PARQUET:
            names = _first_in_parquet(folder.root / file)
        elif name != LINES:
            names = first_images(head(folder, file))
        else:
            record = first_records(folder, file).get("", {})
            is_table = IMAGE in record and bool(caption_columns(tuple(record)))
            names = [str(record[IMAGE])] if is_table else None
        if names is not None:
            tables[file] = [joined(place, image) for image in names[:3]]
    if not tables:
        return []
    return [
        Found(
            files=tuple(tables),
            names=tuple(name for names in tables.values() for name in names),
            has_splits=any(split_in_path(file.rpartition("/")[0]) for file in tables),
            is_published=True,
            has_titles=all(_has_titles(folder, file) for file in tables),
        )
    ]


def read(raw: Path, out: Path, options: Options) -> Source:
    """Read the tables of an ImageFolder: image_id is the image's path inside raw.

    Args:
        raw: the user's folder.
        out: not used; images stay where they are.
        options: corpus.annotations, one table or a folder of them; corpus.caption_field, the
            column of the captions; corpus.rows, which rows count; how splits are drawn.

    Returns:
        The source. Splits are those of a column `split`, else the names of the tables' folders.

    Raises:
        WorkbenchError: no such table, or lines that cannot be read.
    """
    folder = list_raw(raw, options)
    found = annotation_files(
        folder,
        options,
        recognise=recognise,
        expected=f"{CSV}, {LINES} or {PARQUET} with {IMAGE} and a caption",
    )
    field = options.corpus.caption_field
    loaded = {file: _load(folder, file, options.corpus) for file in found.files}
    counting = counted_rows(
        str(raw / found.files[0]), [own.rows for own in loaded.values()], options.corpus
    )
    tables: dict[str, pd.DataFrame] = {}
    unread: list[str] = []
    places: list[str] = []
    several: list[str] = []
    for (file, own), kept in zip(loaded.items(), counting.kept, strict=True):
        unread += own.rows.unread
        if kept and not any(kept):
            continue
        rows, lines = _captions(raw, file, own, kept=kept, field=field)
        several += lines
        place = file.rpartition("/")[0]
        inside = {
            image: joined(place, image.removeprefix("./"))
            for image in rows["image"].unique().tolist()
        }
        if (rows["split"] == "").any():
            places.append(place)
        split = rows["split"].where(rows["split"] != "", split_in_path(place) or "")
        tables[file] = rows.assign(image=rows["image"].map(inside), split=split)
    splits, others = splits_in_column(tables, options.corpus.restval)
    captions = with_caption_ids(tables.values())
    remarks = (*passed_over(unread), *counting.remarks, *several, *said_by_folders(places))
    return described_source(
        folder,
        options,
        splits=splits,
        captions=captions,
        remarks=(*remarks, *others),
        files=found.files,
    )


def _has_titles(folder: Folder, file: str) -> bool:
    """Whether the captions of metadata.csv are titles."""
    form = find_form(head(folder, file)) if file.endswith(CSV) else None
    return form is not None and has_titles(form)


def _load(folder: Folder, file: str, config: CorpusConfig) -> _Loaded:
    """A table of any of the three forms."""
    path = folder.root / file
    field = config.caption_field
    if file.endswith(CSV):
        cells, form = read_cells(path, Columns.chosen(None, field))
        unread = _columns_passed_over(folder, file, field)
        return _Loaded(as_rows(cells, form, unread=unread, config=config), cells=(cells, form))
    if file.endswith(PARQUET):
        records = _records_in_parquet(path, config)
    else:
        records = read_json_lines(path, dict[str, Any], _HINTS[LINES])
    names = list(dict.fromkeys(name for record in records for name in record))
    chosen = _chosen(records[:LOOKED_AT], field)
    caption = chosen.fields[0] if chosen.fields else ""
    rows = Rows(
        images=[str(record.get(IMAGE)) for record in records],
        texts=[str(record.get(caption)) for record in records],
        caption=caption,
        cells={
            name: [record.get(name) for record in records]
            for name in names
            if may_tell(name, config)
        },
        names=names,
        unread=_columns_passed_over(folder, file, field),
    )
    return _Loaded(rows, records=records)


def _captions(
    raw: Path, file: str, loaded: _Loaded, kept: Sequence[bool], field: str | None
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """The captions of the rows that count, as `captions_in` returns them, and lines about them."""
    if loaded.cells is not None:
        cells, form = loaded.cells
        cells = cells[list(kept)].reset_index(drop=True)
        rows = captions_in(cells, form)
        return rows, (*form.remarks, *several_in_cells(file, form, len(cells), len(rows)))
    numbered = enumerate(loaded.records, 1)
    records = {
        number: record for (number, record), is_kept in zip(numbered, kept, strict=True) if is_kept
    }
    return _table(raw / file, records, _HINTS[file.rpartition("/")[2]], field), ()


def _columns_passed_over(folder: Folder, file: str, field: str | None) -> list[str]:
    """The columns of a table, or the fields of its first record, that are not read."""
    if file.endswith(CSV):
        return columns_passed_over(head(folder, file), Columns.chosen(None, field))
    if file.endswith(PARQUET):
        names = list(read_schema(folder.root / file).names)
        rows: Sequence[Mapping[str, Any]] = _first_rows(folder.root / file)
    else:
        rows = first_rows(folder, file).get("", [])
        names = list(without_nulls(rows)) if rows else []
    read = [IMAGE, *_chosen(rows, field).fields, first_of(names, SPLIT_COLUMNS)]
    return [name for name in names if name not in read]


def _chosen(records: Sequence[Mapping[str, Any]], field: str | None) -> Chosen:
    """The fields of the captions of a file, by its first records, or the one that somebody has
    named; none without a record."""
    first = without_nulls(records) if records else {}
    if field is not None:
        return Chosen(next(iter(caption_columns(tuple(first), (field,))), [field]))
    finds = caption_columns(tuple(first))
    return chosen_fields(finds, records, inner_caption(first)) if finds else Chosen([])


def _first_in_parquet(path: Path) -> list[str] | None:
    """The first images of metadata.parquet, none where it is damaged, which reading says; None
    where it is no table of images and captions."""
    try:
        columns = _columns_in(path)
        batch = next(read_batches(path, [IMAGE])) if columns else None
    except (WorkbenchError, StopIteration):
        return []
    return None if batch is None else list(map(str, python_values(batch.column(IMAGE))))


def _columns_in(path: Path) -> list[str]:
    """The columns of texts in metadata.parquet; empty without images or captions."""
    names = [own.name for own in read_schema(path) if is_caption(own.type)]
    return names if IMAGE in names and caption_columns(tuple(names)) else []


def _first_rows(path: Path) -> list[Mapping[str, Any]]:
    """The first rows of metadata.parquet, of its columns of texts; none where it is damaged, which
    reading says."""
    with suppress(WorkbenchError):
        columns = _columns_in(path)
        for batch in read_batches(path, columns) if columns else ():
            return _rows_of(batch.slice(0, LOOKED_AT), columns)
    return []


def _rows_of(batch: pa.RecordBatch, columns: Sequence[str]) -> list[Mapping[str, Any]]:
    cells = [python_values(batch.column(name)) for name in columns]
    return [dict(zip(columns, row, strict=True)) for row in zip(*cells, strict=True)]


def _records_in_parquet(path: Path, config: CorpusConfig) -> list[Mapping[str, Any]]:
    """The rows of metadata.parquet, of its columns of texts and of those that may tell which rows
    count."""
    hint = _HINTS[PARQUET]
    records: list[Mapping[str, Any]] = []
    try:
        columns = _columns_in(path)
        if columns:
            names = (name for name in read_schema(path).names if name not in columns)
            columns += [name for name in names if may_tell(name, config)]
        for batch in read_batches(path, columns) if columns else ():
            records += _rows_of(batch, columns)
    except WorkbenchError as error:
        raise WorkbenchError(f"{path}: {error.message}", hint) from None
    if not columns:
        raise WorkbenchError(f"{path}: no columns of images and captions", hint)
    return records


def _table(
    path: Path, records: Mapping[int, Mapping[str, Any]], hint: str, field: str | None
) -> pd.DataFrame:
    """The captions of records, by their numbers, as `read_captions` returns those of a table;
    faults are named."""
    rows: list[tuple[str, str, str]] = []
    faulty: list[str] = []
    chosen = _chosen([*records.values()][:LOOKED_AT], field)
    if chosen.doubt:
        raise doubted(str(path), chosen.doubt)
    for number, record in records.items():
        try:
            rows += _captions_of(record, chosen.fields, is_named=field is not None)
        except ValueError as error:
            faulty.append(f"{number} ({error})")
    problems = Problems(str(path))
    problems.add("records that cannot be read, numbers", faulty)
    problems.raise_if_any(hint)
    if not rows:
        raise WorkbenchError(f"{path}: no records", "download the file again")
    return pd.DataFrame(rows, columns=["image", "text", "split"]).assign(number=-1)


def _captions_of(
    record: Mapping[str, Any], fields: Sequence[str], is_named: bool
) -> list[tuple[str, str, str]]:
    """Image, text and split of each caption of a record, in the fields of most records or in others
    that are called so; ValueError says what is wrong with it."""
    if not isinstance(record.get(IMAGE), str):
        raise ValueError(f"no text {IMAGE}")
    own = [name for name in fields if name in record]
    others = [] if is_named else caption_columns(tuple(record))
    columns = [own] if own else others
    if not columns:
        raise ValueError(f"no caption ({', '.join(CAPTION_COLUMNS[:4])} ...)")
    values = [record[key] for key in columns[0]]
    if not all(isinstance(value, str | list) for value in values):
        raise ValueError("a caption is no text")
    texts = [text for value in values for text in plain_texts(value)]
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("a caption is no text")
    split = str(record.get(first_of(record, SPLIT_COLUMNS) or "") or "")
    return [(record[IMAGE], text, split) for text in texts]
