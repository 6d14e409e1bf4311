"""Rows of tables with images inside: which columns are the image, its captions and its split.

Parquet files and Arrow's files give them alike, as record batches.
"""

import hashlib
import io
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pyarrow as pa

from pipeline.corpus.dataset.asked import BESIDE, LOOKED_AT, chosen_fields, doubted
from pipeline.corpus.dataset.cells import (
    COMMON_CAPTION_COLUMNS,
    NUMBER,
    RARE_CAPTION_COLUMNS,
    SPLIT_COLUMNS,
    TEXT_FIELDS,
    TOKENS,
    Text,
    caption_columns,
    first_of,
    passed_over,
    plain_name,
    texts_of,
)
from pipeline.corpus.dataset.conditions import Conditions, cell_text
from pipeline.corpus.dataset.counted_rows import Rows, may_tell, none_left, told_by_rows
from pipeline.corpus.dataset.folder import IMAGE_ENDINGS
from pipeline.corpus.dataset.shards import (
    Caption,
    Gathered,
    Shard,
    Sight,
    check_one_configuration,
    check_one_language,
    read_shards,
    require_content,
    require_splits,
)
from pipeline.corpus.dataset.source import Options, Source
from pipeline.corpus.dataset.splits import RESTVAL, is_rest, split_named, split_or_rest
from pipeline.corpus.params import CorpusConfig
from pipeline.features.arrays.nested import python_values
from pipeline.features.arrays.parquet import is_list, is_text
from pipeline.runtime.errors import WorkbenchError, counted, listing
from pipeline.runtime.text import Problems

# Names that break ties. Hugging Face's copies of tar files name columns by the members' endings.
IMAGE_NAMES = ("image", "img", *(ending[1:] for ending in IMAGE_ENDINGS), "picture", "photo")
LINES = "txt"  # a column of texts whose lines are captions
CAPTION_NAMES = (*COMMON_CAPTION_COLUMNS, LINES, "json", *RARE_CAPTION_COLUMNS)
FIELDS = (*TEXT_FIELDS, TOKENS, NUMBER)  # of records of captions that are read
BATCH_BYTES = 1 << 23  # of rows that are Python's values at a time
DIGITS = 12  # of a digest in a name

ReadSchema = Callable[[Path], pa.Schema]
ReadBatches = Callable[[Path, Sequence[str]], Iterator[pa.RecordBatch]]


class RowFormat(NamedTuple):
    """How files of a format are read: their columns, and their rows in batches. kind: a key of
    `first_bytes`."""

    ending: str
    kind: str
    read_schema: ReadSchema
    read_batches: ReadBatches


class Row(NamedTuple):
    """A row: the image's bytes and its name, each None where it has none, its captions, the text
    that stands for its split, and what it has in columns that may tell whether it counts."""

    data: bytes | None
    name: str | None
    texts: list[Text]
    split: str | None = None
    cells: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class Columns:
    """The columns that are read. split: None for none; telling: those that may tell which rows
    count; remarks: lines about what was chosen."""

    image: str
    captions: tuple[str, ...]
    split: str | None = None
    telling: tuple[str, ...] = ()
    remarks: tuple[str, ...] = field(default=(), compare=False)

    @property
    def names(self) -> list[str]:
        """All of them."""
        own = (self.image, *self.captions, *([self.split] if self.split else []), *self.telling)
        return list(dict.fromkeys(own))


def read_row_shards(
    raw: Path, out: Path, options: Options, shards: Sequence[Shard], form: RowFormat
) -> Source:
    """Read files of rows with images inside: image_id is `<split>/<path>`.

    Without a split the path alone is the id; without a path the digest of the bytes; and where
    different images have one path, a part of the digest is in their names. caption_id is
    `<image_id>#<number>`, or the number that the rows give (sentid) where all have another one.
    Rows of the same image give it all their captions. Files without a column of images are passed
    over beside others that have one.

    Args:
        raw: the user's folder.
        out: the folder of the corpus.
        options: which columns are meant, and the seed of the splits.
        shards: the files.
        form: how they are read.

    Returns:
        The source.

    Raises:
        WorkbenchError: files that cannot be read, or whose columns cannot be told.
    """
    check_one_configuration(raw, [shard.name for shard in shards])
    check_one_language(raw, [shard.path for shard in shards])
    schemas = _schemas(shards, form)
    own, others = _with_images(raw, schemas, ending=form.ending, named=options.corpus.image_field)
    split = _split_column(own, schemas, form)
    if split is None:
        require_splits(raw, own)
    config = _that_describe(own, schemas, form, options.corpus)
    rows = RowImages(config, split)
    telling = TellingRows(str(raw), schemas.values(), options.corpus)

    def read_shard(shard: Shard, gathered: Gathered) -> None:
        schema = schemas[shard] or form.read_schema(shard.path)
        columns = find_columns(schema, config)
        if split is not None and split not in schema.names:
            raise WorkbenchError(
                f"no column {split!r}, which says the split in other shards",
                "name the files that belong together with corpus.annotations",
            )
        gathered.remarks += [one for one in columns.remarks if one not in gathered.remarks]
        columns = replace(columns, split=split, telling=telling.names_in(schema, columns))
        for number, row in enumerate(read_rows(form, shard.path, columns)):
            if telling.counts(row):
                image_id = rows.add(shard, number, row, gathered)
                telling.add(image_id, row, caption=columns.captions[0])
        rows.raise_if_taken()
        if shard is own[-1]:
            telling.check()

    source = read_shards(raw, out, options, shards=own, kind=form.kind, read_shard=read_shard)
    counting = telling.remarks()
    unread = _passed_over({shard: schemas[shard] for shard in own}, split, config)
    return replace(source, remarks=(*others, *unread, *counting, *rows.remarks(), *source.remarks))


def sight_of_rows(path: Path, form: RowFormat) -> Sight:
    """What a look at the columns of a file says; one without a column of images is another kind.

    Args:
        path: the file.
        form: how such files are read.

    Returns:
        What it is.
    """
    try:
        schema = form.read_schema(path)
    except OSError:
        return Sight.OTHER
    except WorkbenchError:
        return Sight.DAMAGED
    if not any(is_image(own.type) for own in schema):
        return Sight.OTHER
    return Sight.SHARD_WITH_SPLITS if _columns_for_splits(schema) else Sight.SHARD


def _columns_for_splits(schema: pa.Schema) -> list[str]:
    """The columns of texts that are called as if they said the split."""
    return _in_order([own.name for own in schema if is_text(own.type)], SPLIT_COLUMNS)


def _schemas(shards: Sequence[Shard], form: RowFormat) -> dict[Shard, pa.Schema]:
    """The columns of every file; none for one that cannot be read: reading names it."""
    schemas = dict.fromkeys(shards, pa.schema([]))
    for shard in shards:
        with suppress(WorkbenchError):
            require_content(shard.path)
            schemas[shard] = form.read_schema(shard.path)
    return schemas


def _with_images(
    raw: Path, schemas: Mapping[Shard, pa.Schema], ending: str, named: str | None
) -> tuple[list[Shard], list[str]]:
    """The files with a column of images, or all where none has any: reading says what they have.
    Those that cannot be read stay, too. And a line about the others."""
    without = [
        shard
        for shard, schema in schemas.items()
        if schema.names
        and not any(is_image(own.type) and named in (None, own.name) for own in schema)
    ]
    own = [shard for shard in schemas if shard not in without]
    if not own or not without:
        return list(schemas), []
    names = listing((shard.path.relative_to(raw).as_posix() for shard in without), 3)
    count = counted(len(without), f"{ending} file")
    return own, [f"passed over, without a column of images: {count}: {names}"]


def _split_column(
    shards: Sequence[Shard], schemas: Mapping[Shard, pa.Schema], form: RowFormat
) -> str | None:
    """The column that says the split, by its name and by its first value; None for none."""
    for shard in shards:
        for name in _columns_for_splits(schemas[shard]):
            value = _first_text(shard.path, name, form)
            if split_named(value) or is_rest(value):
                return name
    return None


def _that_describe(
    shards: Sequence[Shard],
    schemas: Mapping[Shard, pa.Schema],
    form: RowFormat,
    config: CorpusConfig,
) -> CorpusConfig:
    """The settings, with the column of captions named where the usual one asks for them, or says
    the same of all; WorkbenchError where it cannot be told."""
    if config.caption_field is not None:
        return config
    for shard in shards:
        schema = schemas[shard]
        texts = [own.name for own in schema if is_caption(own.type)]
        finds = caption_columns(tuple(texts), CAPTION_NAMES)
        beside = [name for name in schema.names if plain_name(name) in BESIDE]
        names = [*dict.fromkeys([*(name for find in finds for name in find), *beside])]
        records = _first_rows(shard.path, names, form) if finds else []
        if not records:
            continue
        chosen = chosen_fields(finds, records)
        if chosen.doubt:
            raise doubted(str(shard.path), chosen.doubt)
        if chosen.fields == finds[0] or len(chosen.fields) > 1:
            return config
        return config.model_copy(update={"caption_field": chosen.fields[0]})
    return config


def _first_rows(path: Path, names: Sequence[str], form: RowFormat) -> list[dict[str, Any]]:
    """The first rows of some columns; none where the file is damaged: reading names it."""
    with suppress(WorkbenchError):
        for batch in form.read_batches(path, names):
            first = batch.slice(0, LOOKED_AT)
            cells = [python_values(first.column(name)) for name in names]
            return [dict(zip(names, row, strict=True)) for row in zip(*cells, strict=True)]
    return []


def _first_text(path: Path, name: str, form: RowFormat) -> str:
    """The first text of a column that is not empty; empty where there is none, or where the file is
    damaged: reading names it."""
    with suppress(WorkbenchError):
        for batch in form.read_batches(path, [name]):
            for value in python_values(batch.column(0)):
                if value:
                    return str(value)
    return ""


def read_rows(form: RowFormat, path: Path, columns: Columns) -> Iterator[Row]:
    """The rows of a file, one by one, in the memory that a batch of it takes.

    Args:
        form: how the file is read.
        path: the file.
        columns: those that are read.

    Yields:
        Rows in their order.

    Raises:
        WorkbenchError: a damaged file.
    """
    by_line = [name.lower().rpartition(".")[2] == LINES for name in columns.captions]
    for whole in form.read_batches(path, columns.names):
        step = max(1, BATCH_BYTES * len(whole) // max(1, whole.nbytes))
        for start in range(0, len(whole), step):
            batch = whole.slice(start, step)
            images, names = _images(batch.column(columns.image))
            splits: list[Any] = [None] * len(batch)
            if columns.split is not None:
                splits = python_values(batch.column(columns.split))
            captions = [
                [texts_of(cell, lines) for cell in python_values(batch.column(name), FIELDS)]
                for name, lines in zip(columns.captions, by_line, strict=True)
            ]
            texts = captions[0]
            if len(captions) > 1:
                texts = [list(chain.from_iterable(own)) for own in zip(*captions, strict=True)]
            told = {name: python_values(batch.column(name)) for name in columns.telling}
            cells = [dict(zip(told, own, strict=True)) for own in zip(*told.values(), strict=True)]
            yield from map(Row, images, names, texts, splits, cells or [{}] * len(batch))


def _images(column: pa.Array) -> tuple[list[Any], list[Any]]:
    """The bytes and the paths in a column of images; None for those that it lacks."""
    if not pa.types.is_struct(column.type):
        return python_values(column), [None] * len(column)
    names = [field.name for field in column.type]
    fields = dict(zip(names, column.flatten(), strict=True))
    paths = python_values(fields["path"]) if "path" in fields else [None] * len(column)
    return python_values(fields["bytes"]), paths


def find_columns(schema: pa.Schema, config: CorpusConfig) -> Columns:
    """The columns of the image and of its captions: the named ones, or the usual ones.

    Args:
        schema: all columns of a file.
        config: corpus.image_field and corpus.caption_field; the name of captions also stands for
            its numbered columns (`caption_0`, `caption_1`, ...).

    Returns:
        The columns, with a line where others could be meant.

    Raises:
        WorkbenchError: none, or several that could be the image.
    """
    columns = listing((f"{own.name} ({own.type})" for own in schema), 20)
    images = [own.name for own in schema if is_image(own.type)]
    named = config.image_field
    chosen = [name for name in images if named in (None, name)]
    if len(chosen) > 1:
        structs = [name for name in chosen if pa.types.is_struct(schema.field(name).type)]
        chosen = _in_order(chosen, IMAGE_NAMES)[:1] or (structs if len(structs) == 1 else chosen)
    if len(chosen) != 1:
        kind = "several columns" if chosen else "no column"
        name = "" if named is None else f" {named!r}"
        raise WorkbenchError(
            f"{kind}{name} of image bytes: {columns}; set corpus.image_field",
            "set corpus.image_field in params.yaml to the column of the images",
        )
    texts = [own.name for own in schema if is_caption(own.type) and own.name != chosen[0]]
    wanted = CAPTION_NAMES if config.caption_field is None else (config.caption_field,)
    finds = caption_columns(tuple(texts), wanted)
    if not finds:
        shown = " or ".join(wanted[: len(COMMON_CAPTION_COLUMNS)])
        raise WorkbenchError(
            f"no column {shown} of text or lists of text: {columns}; set corpus.caption_field",
            "set corpus.caption_field in params.yaml to the column of the captions",
        )
    remarks = []
    if len(images) > 1 and named is None:
        others = listing(name for name in images if name != chosen[0])
        remarks.append(f"images: column {chosen[0]!r}; corpus.image_field takes another: {others}")
    if len(finds) > 1:
        others = listing(name for find in finds[1:] for name in find if name not in finds[0])
        if others:
            remarks.append(
                f"captions: column {listing(finds[0])}; corpus.caption_field takes another: "
                f"{others}"
            )
    return Columns(chosen[0], tuple(finds[0]), remarks=tuple(remarks))


def _passed_over(
    schemas: Mapping[Shard, pa.Schema], split: str | None, config: CorpusConfig
) -> tuple[str, ...]:
    """A line about the columns of the first file that can be read and are not."""
    for schema in schemas.values():
        with suppress(WorkbenchError):
            read = {split, *find_columns(schema, config).names}
            return passed_over([own.name for own in schema if own.name not in read])
    return ()


def _in_order(columns: Sequence[str], names: Sequence[str]) -> list[str]:
    """Columns with one of some names, in the order of the names; case does not matter."""
    return [column for name in names for column in columns if column.lower() == name]


def is_image(kind: pa.DataType) -> bool:
    """Whether a column of a type may hold images: bytes, or structs {bytes, path}."""
    if not pa.types.is_struct(kind):
        return _is_binary(kind)
    fields = {field.name: field.type for field in kind}
    path = fields.get("path", pa.null())  # null also where every path is
    named = is_text(path) or pa.types.is_null(path)
    return "bytes" in fields and _is_binary(fields["bytes"]) and named


def _is_binary(kind: pa.DataType) -> bool:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return kind in (pa.binary(), pa.large_binary(), pa.binary_view())


def is_caption(kind: pa.DataType) -> bool:
    """Whether a column of a type may hold captions: texts, structs with a text, lists of these."""
    if is_list(kind):
        kind = kind.value_type
    if not pa.types.is_struct(kind):
        return is_text(kind)
    fields = {field.name: field.type for field in kind}
    own = fields.get(first_of(fields, TEXT_FIELDS) or "", pa.null())
    return is_text(own.value_type if is_list(own) else own)


class TellingRows:
    """What rows say of whether they count, gathered over all files.

    Args:
        place: of the files, for messages.
        schemas: the columns of all files.
        config: corpus.rows, and corpus.caption_field.

    Raises:
        WorkbenchError: corpus.rows names a column that no file has.
    """

    def __init__(self, place: str, schemas: Iterable[pa.Schema], config: CorpusConfig) -> None:
        self.place = place
        self.config = config
        self.conditions = Conditions.of(config.rows)
        self.values: dict[str, Counter[str]] = defaultdict(Counter)
        self.names = list(dict.fromkeys(name for schema in schemas for name in schema.names))
        self.conditions.check_names(place, self.names)
        self.images: list[str] = []
        self.texts: list[str] = []
        self.captions: list[str] = []
        self.cells: list[Mapping[str, Any]] = []
        self.left_out = 0

    def names_in(self, schema: pa.Schema, columns: Columns) -> tuple[str, ...]:
        """The columns of a file that may tell which rows count.

        Args:
            schema: all columns of the file.
            columns: those that are read.

        Returns:
            Their names, in the order of the file.
        """
        return tuple(
            own.name
            for own in schema
            if (may_tell(own.name, self.config) and own.name not in columns.names)
            or self.conditions.have(own.name)
        )

    def counts(self, row: Row) -> bool:
        """Whether a row meets the conditions of corpus.rows.

        Args:
            row: any one.
        """
        if not self.conditions:
            return True
        own = {plain_name(name): cell_text(cell) for name, cell in row.cells.items()}
        cells = {name: own.get(name, "") for name in self.conditions.values}
        for name, cell in cells.items():
            self.values[name][cell] += 1
        is_kept = self.conditions.hold(cells)
        self.left_out += not is_kept
        return is_kept

    def add(self, image_id: str, row: Row, caption: str) -> None:
        """Keep what a row says that counts.

        Args:
            image_id: of its image.
            row: the row.
            caption: the column of its captions.
        """
        if row.cells:
            self.images.append(image_id)
            self.texts.append(row.texts[0].text if row.texts else "")
            self.captions.append(caption)
            self.cells.append(row.cells)

    def check(self) -> None:
        """Refuse conditions that no row of all files meets.

        Raises:
            WorkbenchError: names the value that no row has, or all conditions.
        """
        self.conditions.check_values(self.place, self.values)
        if self.conditions and not self.images:
            raise none_left(self.place, self.conditions)

    def remarks(self) -> tuple[str, ...]:
        """Lines for the user about rows that do not count; WorkbenchError as `counted_rows`."""
        names = dict.fromkeys(name for cells in self.cells for name in cells)
        unread = [name for name in names if not self.conditions.have(name)]
        rows = Rows(
            images=self.images,
            texts=self.texts,
            caption=next(iter(self.captions), ""),
            cells={name: [cells.get(name) for cells in self.cells] for name in names},
            names=self.names,
            unread=unread,
        )
        lines = told_by_rows(self.place, [rows], self.config)
        return (*self.conditions.left_out(self.left_out), *lines)


class RowImages:
    """The images of rows, joined over all files.

    A name stands for one image as long as its bytes are the same: Hugging Face keeps the last part
    of a path alone, so that different images can have one name.

    Args:
        config: corpus.restval.
        split: the column that says the split, None where the files' names do.
    """

    def __init__(self, config: CorpusConfig, split: str | None) -> None:
        self.restval = config.restval
        self.split = split
        self.ids: dict[tuple[str, bytes], str] = {}  # by name and digest
        self.digests: dict[str, bytes] = {}  # of the first image of every name
        self.claims: Counter[str] = Counter()  # how many images would have an id
        self.dropped = 0

    def add(self, shard: Shard, number: int, row: Row, gathered: Gathered) -> str:
        """Add a row: write its image unless it is there, and note its captions.

        Args:
            shard: the file of the row.
            number: of the row, from 0.
            row: the row.
            gathered: where the image goes, and image and captions are noted.

        Returns:
            The image's id, "" for a row that corpus.restval leaves out.
        """
        split = shard.split
        word = (row.split or "").strip()
        if self.split is not None:
            split = split_or_rest(word, self.restval)
            if split is None and is_rest(word):
                self.dropped += 1
                return ""
        digest = hashlib.sha256(row.data).digest() if row.data is not None else b""
        name = _name(shard, number, row, digest=digest)
        name = name if split is None else f"{split}/{name}"
        image_id = self._identify(name, digest, gathered)
        if self.split is not None:
            images = gathered.words.setdefault(word, set())
            if split is None:
                images.add(image_id)
        if image_id not in gathered.images:
            if row.data is None and row.name:
                gathered.paths[image_id] = row.name
            data = row.data or b""
            stream = None if row.data is None else io.BytesIO(data)
            gathered.add_image(image_id, split, stream, size=len(data), digest=digest)
        gathered.captions += [
            Caption(image_id, text.text, tokens=text.tokens, own_id=text.number)
            for text in row.texts
        ]
        return image_id

    def _identify(self, name: str, digest: bytes, gathered: Gathered) -> str:
        """The id of an image, the same for the same name and digest."""
        known = self.ids.get((name, digest))
        if known is not None:
            return known
        own = name
        first = self.digests.setdefault(name, digest)
        if first != digest:
            own = _with_digest(name, digest)
            if name not in gathered.renamed:
                gathered.renamed[name] = _with_digest(name, first)
                self.claims[gathered.renamed[name]] += 1
        self.claims[own] += 1
        self.ids[name, digest] = own
        return own

    def raise_if_taken(self) -> None:
        """Raise WorkbenchError for ids that several images would have: a name looks like one with a
        digest."""
        taken = (ascii(image_id) for image_id, number in self.claims.items() if number > 1)
        problems = Problems("its rows")
        problems.add("paths of more than one image", taken)
        problems.raise_if_any()

    def remarks(self) -> list[str]:
        """Lines for the user about the column of splits."""
        if self.split is None:
            return []
        lines = [f"splits: column {self.split!r}, not the names of the files"]
        if self.dropped:
            lines.append(f"left out: {counted(self.dropped, 'row')} of split {RESTVAL}")
        return lines


def _name(shard: Shard, number: int, row: Row, digest: bytes) -> str:
    """The name of a row's image: its path, else its digest, else the number of the row."""
    if not row.name:
        return digest.hex() if digest else f"{shard.name}-row-{number}"
    parts = [part for part in row.name.replace("\\", "/").split("/") if part not in ("", ".")]
    is_elsewhere = row.name.startswith(("/", "\\")) or ":" in parts[0] if parts else True
    # A path on somebody's disk: its last part is enough, because the digest tells images apart.
    if is_elsewhere and digest:
        return parts[-1] if parts else digest.hex()
    return "/".join(parts)


def _with_digest(name: str, digest: bytes) -> str:
    """A name with a part of the digest of the image's bytes before its ending."""
    folder, slash, file = name.rpartition("/")
    stem, dot, ending = file.rpartition(".")
    added = digest.hex()[:DIGITS] or "missing"
    own = f"{stem}-{added}.{ending}" if dot and stem else f"{file}-{added}"
    return f"{folder}{slash}{own}"
