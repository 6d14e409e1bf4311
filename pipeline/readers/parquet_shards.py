"""Parquet files as Hugging Face writes them: a column of images {bytes, path}, one of captions."""

import hashlib
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from pipeline.arrays.file import damage_named
from pipeline.arrays.parquet import is_list, is_text, opened
from pipeline.dataset.extracted import ExtractedImages
from pipeline.dataset.params import CorpusConfig
from pipeline.dataset.shards import CAPTION_FIELDS, Gathered, Shard, read_shards
from pipeline.dataset.source import Options, Source
from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.runtime.text import Problems

SIGNS = ("**/*.parquet",)


class ParquetRow(NamedTuple):
    """A row: the image's bytes and name, each None where it has none, and captions without gaps."""

    data: bytes | None
    name: str | None
    texts: list[str]


def read(raw: Path, out: Path, options: Options) -> Source:
    """Read the parquet files below raw: image_id is `<split>/<path>`, without the split where no
    file names one, with a digest for an image without a path; caption_id is `<image_id>#<number>`.
    Rows of the same image give it all their captions."""
    digests: dict[str, bytes | None] = {}
    counts: dict[str, int] = {}

    def read_shard(
        shard: Shard, folder: ExtractedImages, gathered: Gathered, config: CorpusConfig
    ) -> None:
        clashes: dict[str, None] = {}
        for number, row in enumerate(read_rows(shard.path, config)):
            image_id, digest = _identify(shard, number, row)
            if image_id not in digests:
                digests[image_id] = digest
                gathered.images[image_id] = shard.split
                if row.data is None:
                    gathered.faults[image_id] = "no image in the shard"
                else:
                    fault = folder.write(image_id, len(row.data), io.BytesIO(row.data))
                    gathered.faults[image_id] = fault
            elif digests[image_id] != digest:
                clashes[image_id] = None
            for text in row.texts:
                index = counts[image_id] = counts.get(image_id, -1) + 1
                gathered.captions.append((f"{image_id}#{index}", image_id, text))
        problems = Problems("its rows")
        problems.add("paths of more than one image", map(ascii, clashes))
        problems.raise_if_any()

    return read_shards(raw, out, options, ".parquet", read_shard)


def read_rows(path: Path, config: CorpusConfig) -> Iterator[ParquetRow]:
    """The rows of a file, one by one; WorkbenchError where it is damaged. A repeated value is
    stored once: a batch of rows of a small file could ask for any amount of memory. In memory is a
    page of the file, 2 GiB at most."""
    with damage_named("its rows"), opened(path) as file:
        image, captions = _find_columns(file.schema_arrow, config)
        count = 0
        for batch in file.iter_batches(1, columns=[image, *captions], use_threads=False):
            batch.validate(full=True)
            for values in batch.to_pylist():
                yield _row(values[image], [values[name] for name in captions])
                count += 1
        if count != file.metadata.num_rows:
            raise ValueError(f"{file.metadata.num_rows:,} rows announced, {count:,} found")


def _find_columns(schema: pa.Schema, config: CorpusConfig) -> tuple[str, list[str]]:
    """The named columns, else the only one of images and the first usual one of captions. A name of
    captions also stands for its numbered columns (`caption_0`, `caption_1`, ...)."""
    images = [field.name for field in schema if _is_image(field.type)]
    if config.image_field is not None:
        images = [name for name in images if name == config.image_field]
    kinds = {own.name: own.type.value_type if is_list(own.type) else own.type for own in schema}
    texts = [name for name, kind in kinds.items() if is_text(kind)]
    names = CAPTION_FIELDS if config.caption_field is None else (config.caption_field,)
    captions: list[str] = []
    for name in names:
        numbered = re.compile(re.escape(name) + r"_\d+")
        captions = captions or [text for text in texts if text == name]
        captions = captions or [text for text in texts if numbered.fullmatch(text)]
    columns = listing(f"{field.name} ({field.type})" for field in schema)
    if len(images) != 1:
        kind = "several columns" if images else "no column"
        name = "" if config.image_field is None else f" {config.image_field!r}"
        raise WorkbenchError(f"{kind}{name} of image bytes: {columns}; set corpus.image_field")
    if not captions:
        raise WorkbenchError(
            f"no column {' or '.join(names)} of text or lists of text: {columns}; "
            "set corpus.caption_field"
        )
    return images[0], captions


def _is_image(kind: pa.DataType) -> bool:
    if not pa.types.is_struct(kind):
        return _is_binary(kind)
    fields = {field.name: field.type for field in kind}
    path = fields.get("path", pa.null())  # null also where every path is
    named = is_text(path) or pa.types.is_null(path)
    return "bytes" in fields and _is_binary(fields["bytes"]) and named


def _is_binary(kind: pa.DataType) -> bool:
    return kind in (pa.binary(), pa.large_binary())


def _row(image: Any, cells: list[Any]) -> ParquetRow:
    fields = image if isinstance(image, dict) else {"bytes": image}
    texts = [text for cell in cells for text in (cell if isinstance(cell, list) else [cell])]
    kept = [text for text in texts if text is not None]
    return ParquetRow(fields.get("bytes"), fields.get("path"), kept)


def _identify(shard: Shard, number: int, row: ParquetRow) -> tuple[str, bytes | None]:
    """image_id of a row and the digest of its image's bytes."""
    digest = None if row.data is None else hashlib.sha256(row.data).digest()
    if row.name:
        name = row.name.removeprefix("./")
    else:
        name = f"{shard.name}-row-{number}" if digest is None else digest.hex()
    return name if shard.split is None else f"{shard.split}/{name}", digest
