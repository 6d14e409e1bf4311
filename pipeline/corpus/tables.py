"""The corpus: which images and captions there are, which belongs to which, and in what order.

Row order is fixed here once: images by split (train, val, test) and then as in the source, captions
in the order of their images. Everything after looks rows up by id or keeps this order.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.runtime.errors import WorkbenchError, damage_named
from pipeline.runtime.files import write_bytes, write_text

SPLITS = ("train", "val", "test")
REJECTS = "rejects.tsv"
REBUILD = "build it again with: dvc repro prepare_corpus"

_TEXT = pa.string()
_WORDS = pa.list_(pa.string())
_SIDE = pa.float32()
_FLAG = pa.bool_()
IMAGES = pa.schema(
    dict.fromkeys(("image_id", "path", "split", "group"), _TEXT)
    | {"width": pa.int32(), "height": pa.int32(), "sha256": _TEXT}
)
CAPTIONS = pa.schema(  # fits: images of training that it fits beside its own, no negatives of it
    dict.fromkeys(("caption_id", "image_id", "split", "text"), _TEXT)
    | dict.fromkeys(("tokens", "fits"), _WORDS)
)
BOXES = pa.schema(
    {"image_id": _TEXT}
    | dict.fromkeys(("x1", "y1", "x2", "y2"), _SIDE)
    | {"object": _TEXT, "attributes": _WORDS}
)
RELEVANCE = pa.schema(
    {"image_id": _TEXT, "caption_id": _TEXT, "grade": pa.float32(), "i2t": _FLAG, "t2i": _FLAG}
)


@dataclass(frozen=True)
class Corpus:
    """Checked tables, with the columns of IMAGES, CAPTIONS (`fits` may be left out), BOXES and
    RELEVANCE. rejects: file and reason of each. relevance: None without extended positives."""

    images: pd.DataFrame
    captions: pd.DataFrame
    boxes: pd.DataFrame
    rejects: pd.DataFrame
    relevance: pd.DataFrame | None = None

    def write(self, folder: Path) -> None:
        """Write the tables, images.parquet last, and rejects.tsv into `folder`; its folder `images`
        is there afterwards, with a line of text where no reader wrote into it."""
        images = folder / "images"
        images.mkdir(parents=True, exist_ok=True)
        if not any(images.iterdir()):  # DVC warns of every empty folder
            write_text(images / "where.txt", "images.parquet says where the images are\n")
        pairs = pd.DataFrame(columns=RELEVANCE.names) if self.relevance is None else self.relevance
        write_table(folder / "relevance.parquet", pairs, RELEVANCE)
        captions = self.captions
        if "fits" not in captions:
            captions = captions.assign(fits=pd.Series([[]] * len(captions), captions.index))
        write_table(folder / "captions.parquet", captions, CAPTIONS)
        write_table(folder / "boxes.parquet", self.boxes, BOXES)
        write_rejects(folder, self.rejects)
        write_table(folder / "images.parquet", self.images, IMAGES)


def write_rejects(folder: Path, rejects: pd.DataFrame) -> None:
    """Write the list of everything that was left out.

    Args:
        folder: that of the corpus.
        rejects: columns file and reason.
    """
    lines = ["file\treason", *("\t".join(row) for row in rejects.itertuples(index=False))]
    write_text(folder / REJECTS, "\n".join(lines) + "\n")


def load_images(path: Path, rows: range | None = None) -> pd.DataFrame:
    """Read images.parquet.

    Args:
        path: the file.
        rows: those that are wanted; None for all.

    Returns:
        A row per image, with the columns of IMAGES, its rows numbered from 0.

    Raises:
        WorkbenchError: it is missing, damaged or of another schema, or has no such rows.
    """
    return read_table(path, IMAGES, rows)


def load_captions(path: Path, rows: range | None = None) -> pd.DataFrame:
    """Read captions.parquet; tokens and fits are lists.

    Args:
        path: the file.
        rows: those that are wanted; None for all.

    Returns:
        A row per caption, with the columns of CAPTIONS, its rows numbered from 0.

    Raises:
        WorkbenchError: it is missing, damaged or of another schema, or has no such rows.
    """
    return read_table(path, CAPTIONS, rows)


def load_boxes(path: Path) -> pd.DataFrame:
    """Read boxes.parquet, attributes as lists; empty for a corpus without boxes."""
    return read_table(path, BOXES)


def in_split(table: pd.DataFrame, split: str) -> pd.DataFrame:
    """The rows of one split, numbered from 0.

    Args:
        table: images or captions, with a column split.
        split: train, val or test.

    Returns:
        The split's rows in the order of the table, at least one.

    Raises:
        WorkbenchError: another split, or one without rows.
    """
    if split not in SPLITS:
        raise WorkbenchError(f"split {split!r}: allowed are {', '.join(SPLITS)}")
    rows = table[table["split"] == split].reset_index(drop=True)
    if rows.empty:
        raise WorkbenchError(f"split {split!r} of the corpus is empty", REBUILD)
    return rows


def require_files(images: pd.DataFrame, setting: str, way_out: str) -> None:
    """Refuse images without files where pixels are needed.

    Args:
        images: rows with image_id and path, which is empty where there are features alone.
        setting: of params.yaml, that needs the pixels; the message names it.
        way_out: what to set instead.

    Raises:
        WorkbenchError: images without files, of a dataset without photographs.
    """
    without = images["image_id"][images["path"] == ""]
    if len(without):
        raise WorkbenchError(
            f"{setting} needs photographs, and the corpus has none of {len(without):,} images, "
            f"such as {without.iloc[0]}: it was read from features and captions",
            way_out,
        )


def images_digest(images: pd.DataFrame) -> str:
    """SHA-256 hex over image_id and content digest of every image, in row order."""
    digest = hashlib.sha256()
    for image_id, content in zip(images["image_id"], images["sha256"], strict=True):
        digest.update(f"{image_id}\0{content}\n".encode())
    return digest.hexdigest()


def captions_digest(captions: pd.DataFrame) -> str:
    """SHA-256 hex over caption_id, split and words of every caption, in row order."""
    digest = hashlib.sha256()
    rows = captions[["caption_id", "split", "tokens"]].itertuples(index=False)
    for caption_id, split, words in rows:
        digest.update(f"{caption_id}\0{split}\0{' '.join(words)}\n".encode())
    return digest.hexdigest()


def write_table(path: Path, table: pd.DataFrame, schema: pa.Schema) -> None:
    """Write a table to parquet, atomically; the same rows give the same bytes.

    Args:
        path: the file.
        table: it has the columns of the schema, and perhaps others, which are not written.
        schema: names and types of the columns.
    """
    columns = [pa.array(table[field.name].tolist(), field.type) for field in schema]
    # Page checksums: without them a flipped bit in a string is read as another string.
    content = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_arrays(columns, schema=schema), content, write_page_checksum=True)
    write_bytes(path, memoryview(content.getvalue()))


def read_table(path: Path, schema: pa.Schema, rows: range | None = None) -> pd.DataFrame:
    """Read a table of parquet, its rows numbered from 0.

    Args:
        path: the file.
        schema: names and types of its columns.
        rows: those that are wanted; None for all.

    Returns:
        A row per row of the file, in its order; a list becomes a Python list.

    Raises:
        WorkbenchError: it is missing, damaged or of another schema, or has no such rows.
    """
    if not path.is_file():
        raise WorkbenchError(f"{path}: no such file", REBUILD)
    with damage_named(str(path), REBUILD):
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            table = file.read()
            total = file.metadata.num_rows
        table.validate(full=True)
        if table.num_rows != total:  # no checksum covers how many rows a group has
            raise ValueError(f"{total:,} rows announced, {table.num_rows:,} found")
    if not table.schema.equals(schema):
        have = ", ".join(f"{field.name} {field.type}" for field in table.schema)
        want = ", ".join(f"{field.name} {field.type}" for field in schema)
        raise WorkbenchError(f"{path}: columns are {have}; expected {want}", REBUILD)
    if rows is not None:
        if not 0 <= rows.start < rows.stop <= total:
            raise WorkbenchError(f"{path}: no rows {rows.start} to {rows.stop}, it has {total:,}")
        table = table.slice(rows.start, len(rows))
    return pd.DataFrame(
        {
            name: values.to_pylist() if pa.types.is_list(values.type) else values.to_pandas()
            for name, values in zip(table.column_names, table.columns, strict=True)
        }
    )
