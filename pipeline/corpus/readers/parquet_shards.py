"""Parquet files as Hugging Face writes them: a column of images {bytes, path}, one of captions."""

from functools import partial
from pathlib import Path

from pipeline.corpus.dataset.folder import Folder
from pipeline.corpus.dataset.recognise import Found
from pipeline.corpus.dataset.rows import RowFormat, read_row_shards, sight_of_rows
from pipeline.corpus.dataset.shards import find_shards, found_shards
from pipeline.corpus.dataset.source import Options, Source
from pipeline.features.arrays.parquet_rows import read_batches, read_schema

FORMAT = RowFormat(".parquet", "parquet", read_schema, read_batches)
HAS_ROWS = True  # of which corpus.rows keeps some


def recognise(folder: Folder) -> list[Found]:
    """The parquet files of folders in which one of the first has a column of images;
    damaged ones where there are no others."""
    return found_shards(folder, [FORMAT.ending], partial(sight_of_rows, form=FORMAT))


def read(raw: Path, out: Path, options: Options) -> Source:
    """Read the parquet files below raw that have a column of images; ids as `read_row_shards`
    says.

    Args:
        raw: the user's folder.
        out: the folder of the corpus, for the images.
        options: corpus.annotations, a file or a folder; corpus.image_field and
            corpus.caption_field, columns; corpus.rows, which rows count; how splits are drawn.

    Returns:
        The source.

    Raises:
        WorkbenchError: no such file, files that are damaged or have no such columns.
    """
    shards = find_shards(raw, options, FORMAT.ending)
    return read_row_shards(raw, out, options, shards=shards, form=FORMAT)
