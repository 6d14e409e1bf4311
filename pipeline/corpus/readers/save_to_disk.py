"""Datasets as Hugging Face's `save_to_disk` writes them: a folder of `.arrow` files for each split.

`state.json` beside them says which files there are. Hugging Face's own cache has such files, too,
without it.
"""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from pipeline.corpus.dataset.folder import Folder
from pipeline.corpus.dataset.recognise import Found
from pipeline.corpus.dataset.rows import RowFormat, read_row_shards, sight_of_rows
from pipeline.corpus.dataset.shards import Shard, find_shards, found_shards
from pipeline.corpus.dataset.source import Options, Source
from pipeline.features.arrays.stream import read_batches, read_schema
from pipeline.runtime.errors import WorkbenchError, counted, listing
from pipeline.runtime.text import read_json

FORMAT = RowFormat(".arrow", "arrow", read_schema, read_batches)
HAS_ROWS = True  # of which corpus.rows keeps some
STATE = "state.json"
CACHED = "cache-"  # files of results that `datasets` keeps beside a dataset
AGAIN = "load it with datasets.load_from_disk, and save flatten_indices() of it with save_to_disk"


def recognise(folder: Folder) -> list[Found]:
    """The arrow files of folders in which one of the first has a column of images;
    damaged ones where there are no others."""
    return found_shards(folder, [FORMAT.ending], partial(sight_of_rows, form=FORMAT))


def read(raw: Path, out: Path, options: Options) -> Source:
    """Read the arrow files below raw that have a column of images; ids as `read_row_shards` says.

    Args:
        raw: the user's folder.
        out: the folder of the corpus, for the images.
        options: corpus.annotations, a file or a folder; corpus.image_field and
            corpus.caption_field, columns; corpus.rows, which rows count; how splits are drawn.

    Returns:
        The source, with a remark about arrow files that are no part of a saved dataset.

    Raises:
        WorkbenchError: no such file, one that state.json names is not there, or files that are
            damaged or have no such columns.
    """
    shards = find_shards(raw, options, FORMAT.ending)
    folders = list(dict.fromkeys(shard.path.parent for shard in shards))
    listed = {folder: _listed(folder) for folder in folders}
    own = [shard for shard in shards if _belongs(shard, listed[shard.path.parent])]
    left = [shard for shard in shards if shard not in own]
    source = read_row_shards(raw, out, options, shards=own or shards, form=FORMAT)
    if not (own and left):
        return source
    names = listing((shard.path.relative_to(raw).as_posix() for shard in left), 3)
    remark = f"passed over, no part of a saved dataset: {counted(len(left), 'arrow file')}: {names}"
    return replace(source, remarks=(remark, *source.remarks))


def _belongs(shard: Shard, listed: set[str] | None) -> bool:
    """Whether a file is a part of a dataset: by its folder's state.json, or by its name."""
    name = shard.path.name
    return not name.startswith(CACHED) if listed is None else name in listed


def _listed(folder: Path) -> set[str] | None:
    """The files that a folder's state.json names; None without one."""
    path = folder / STATE
    if not path.is_file():
        return None
    state = read_json(path)
    if not isinstance(state, dict):
        raise WorkbenchError(f"{path}: not a state of save_to_disk", "download the folder again")
    if _names(state.get("_indices_data_files")):
        raise WorkbenchError(f"{path}: the rows are chosen by another file of indices", AGAIN)
    names = _names(state.get("_data_files"))
    missing = [name for name in names if not (folder / name).exists()]
    if missing:
        raise WorkbenchError(
            f"{path}: names files that are not there: {listing(missing, 3)}",
            "copy or download the folder again",
        )
    return set(names) if names else None


def _names(files: Any) -> list[str]:
    """The names in a list of files of state.json."""
    entries = files if isinstance(files, list) else []
    names = [entry.get("filename") for entry in entries if isinstance(entry, dict)]
    return [name for name in names if isinstance(name, str) and name]
