"""What to do about scores in a form that is not read: tables, runs of trec_eval, and files of
several arrays.

The command saves a table as .npz. Which of its first row and first column are ids is told here,
by the beginning of the table, so that the command has no choice to make.
"""

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pipeline.features.arrays.file import Array, ArrayFile
from pipeline.features.arrays.formats import saving
from pipeline.features.arrays.per_image import dataset_names
from pipeline.features.hdf5 import opened
from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.runtime.first_bytes import python_line
from pipeline.runtime.text import decode_text

# What is meant where a file has several matrices
USUAL_VECTORS = "features"
USUAL_SCORES = "scores"
TABLES = (".csv", ".tsv", ".txt", ".dat", ".run", ".trec")
LONGEST_LINE = 1 << 24  # bytes; a caption_id takes a few
SEPARATORS = ("\t", ",", ";")
INDEX = "__index_level_"  # begins the name of a column that is pandas' index
IDS_OF_BOTH = ("image_ids", "caption_ids")  # that may lie in a file of both embeddings
PAIRS = ("image_id", "caption_id")  # columns of a table with a row for each pair
RUN = (
    "a run of trec_eval, which is a ranking and no matrix: evaluate it with ir_measures "
    "(docs/trec.md), or save all scores as .npz"
)
ROWS = "if its rows are images and its columns captions (otherwise write .T behind the table)"
# {query: {document: score}}, as ranx and pytrec_eval write runs
_RUN_IN_JSON = re.compile(rb'\s*\{\s*"[^"]*"\s*:\s*\{\s*"[^"]*"\s*:\s*[-\d]')
LOOKED_AT = 1 << 16  # bytes at the beginning of a file
_WHOLE = re.compile(r"[+-]?\d+")


def way_out(path: Path) -> str:
    """What to do about a table of scores as text.

    Args:
        path: of a file.

    Returns:
        The command that saves its scores, or what else reads them; empty for other files.
    """
    if path.suffix.lower() == ".json" and path.is_file():
        with open(path, "rb") as file:
            return RUN if _RUN_IN_JSON.match(file.read(LOOKED_AT)) else ""
    if path.suffix.lower() not in TABLES or not path.is_file():
        return ""
    try:
        with open(path, "rb") as file:
            lines = [decode_text(file.readline(LONGEST_LINE)) for _ in range(3)]
    except UnicodeDecodeError:
        return ""
    if lines[1].split()[1:2] == ["Q0"]:
        return RUN
    separator = next((sign for sign in SEPARATORS if sign in lines[1]), None)
    rows = [_cells(line, separator) for line in lines if line.strip()]
    if len(rows) < 2 or len(rows[1]) < 2:
        return ""
    form = _form(rows)
    sign = r"\s+" if separator is None else separator
    if form.names is not None and {*PAIRS} <= set(form.names) and len(form.names) == 3:
        texts = f"dtype=dict.fromkeys({PAIRS}, str)"
        table = f"pandas.read_csv({str(path)!r}, sep={sign!r}, {texts})"
        return _saving_pairs(path, table, form.names)
    head = None if form.names is None else 0
    ids = "index_col=0, converters={0: str}" if form.has_index else "index_col=False"
    table = f"pandas.read_csv({str(path)!r}, sep={sign!r}, header={head}, {ids})"
    return _saving(path, table, form.has_image_ids, form.has_caption_ids)


def way_out_of_arrays(file: ArrayFile, arrays: Mapping[str, Array], usual: str) -> str:
    """What to do about a file of arrays without one matrix.

    Args:
        file: the file.
        arrays: those that may be the matrix, by name.
        usual: USUAL_SCORES or USUAL_VECTORS.

    Returns:
        The way out, most often a command.
    """
    are_scores = usual == USUAL_SCORES
    if len(arrays) == 1:
        shape = [size for size in next(iter(arrays.values())).shape if size != 1]
        if len(shape) == 2:
            return f"save it with two axes by array.reshape{tuple(shape)}"
        if len(shape) > 2 and not are_scores:
            return (
                f"if the last axis has the values of one vector, save it by array.reshape(-1, "
                f"{shape[-1]})"
            )
        if len(shape) > 2:
            return "save one matrix of all images by all captions; folds are not read"
    if file.path.suffix == ".parquet" and all(len(array.shape) == 1 for array in arrays.values()):
        return _way_out_of_columns(file) if are_scores else saving(file.path, "parquet")
    matrices = [name for name, array in arrays.items() if len(array.shape) == 2]
    if are_scores and len(matrices) == 2 and file.path.suffix == ".npz":
        return _split_in_two(file, matrices)
    return f"give the matrix that is meant the name {usual}, or save it alone"


def refuse_groups(path: Path) -> None:
    """Refuse an HDF5 file that has nothing outside of groups.

    Args:
        path: of a file without arrays.

    Raises:
        WorkbenchError: naming the arrays in its groups, or what the file is.
    """
    if path.suffix not in (".h5", ".hdf5"):
        return
    with opened(path) as file:
        names = dataset_names(file, path)
        is_ours = "test/caption_image_ids" in names and "model" in file.attrs
    if is_ours:
        raise WorkbenchError(
            f"{path}: a score file already, as this command writes it",
            f"name {path.stem} in average_scores or rerank of params.yaml; it must lie in "
            "data/scores",
        )
    if names:
        raise WorkbenchError(
            f"{path}: no matrix outside of groups; in groups are {listing(names)}",
            "save one matrix for each split outside of groups: scores (images x captions)",
        )


def _split_in_two(file: ArrayFile, names: Sequence[str]) -> str:
    """How to save embeddings of images and captions that are in one file, with the ids there."""
    arrays = [name for name in (*IDS_OF_BOTH, *names) if name in file.names]
    counts = {name: file.array(name).shape[0] for name in arrays}
    saves = []
    targets = []
    for name in names:
        own = [ids for ids in IDS_OF_BOTH if counts.get(ids) == counts[name]]
        if len(own) > 1:  # as many images as captions
            return (
                f"give the matrix of scores the name {USUAL_SCORES}; if they are embeddings, save "
                "each in a file of its own, with its ids as ids"
            )
        targets.append(f"{file.path}.{name}.npz")
        ids = f", ids=d[{own[0]!r}]" if own else ""
        saves.append(f"n.savez({targets[-1]!r}, features=d[{name!r}]{ids})")
    line = python_line(f"import numpy as n; d = n.load({str(file.path)!r}); {'; '.join(saves)}")
    return (
        f"give the matrix of scores the name {USUAL_SCORES}; if they are embeddings of images and "
        f"of captions, save each alone, and name both: {line}"
    )


def _way_out_of_columns(file: ArrayFile) -> str:
    """What to do about a parquet file with a column for each caption, or a row for each pair; empty
    for others."""
    if len(file.names) < 3:
        return ""
    table = f"pandas.read_parquet({str(file.path)!r})"
    if {*PAIRS} <= set(file.names) and len(file.names) == 3:
        return _saving_pairs(file.path, table, file.names)
    texts = [name for name in file.names if file.array(name).dtype.kind == "O"]
    if len(texts) > 1:
        return ""
    # pandas writes the index as a column behind the others, and reads it as the index again
    if texts and texts[0] == file.names[0]:
        table += f".set_index({texts[0]!r})"
    has_index = bool(texts) or any(name.startswith(INDEX) for name in file.names)
    names = [name for name in file.names if name not in texts and not name.startswith(INDEX)]
    return _saving(file.path, table, has_index, not _counts(names))


@dataclass(frozen=True)
class _Form:
    """What the first row and the first column of a table hold."""

    names: list[str] | None  # of the columns; None for a table without a head
    has_index: bool  # whether the first column is no score
    has_image_ids: bool
    has_caption_ids: bool


def _form(rows: Sequence[Sequence[str]]) -> _Form:
    head, first = rows[:2]
    others = head[1:]
    has_head = (
        not head[0].strip()
        or not all(map(_is_number, others))
        or (all(map(_is_whole, others)) and not all(map(_is_whole, first[1:])))
    )
    is_whole_first = _is_whole(first[0]) and not all(map(_is_whole, first[1:]))
    has_index = not _is_number(first[0]) or (has_head and not head[0].strip()) or is_whole_first
    index = [row[0] for row in rows[1 if has_head else 0 :]]
    columns = list(others if has_index else head)
    return _Form(
        names=list(head) if has_head else None,
        has_index=has_index,
        has_image_ids=has_index and not _counts(index),
        has_caption_ids=has_head and not _counts(columns),
    )


def _saving(path: Path, table: str, has_image_ids: bool, has_caption_ids: bool) -> str:
    ids = ", image_ids=d.index.astype(str).tolist()" if has_image_ids else ""
    ids += ", caption_ids=d.columns.astype(str).tolist()" if has_caption_ids else ""
    code = f"import pandas, numpy as n; d = {table}; "
    code += f"n.savez({_target(path)!r}, scores=d.to_numpy('f8'){ids})"
    return f"{ROWS}, save it and name {_target(path)} instead: {python_line(code)}"


def _saving_pairs(path: Path, table: str, names: Sequence[str]) -> str:
    """names: of three columns, two of them those of PAIRS."""
    (score,) = (name for name in names if name not in PAIRS)
    image, caption = PAIRS
    pivot = f"{table}.pivot(index={image!r}, columns={caption!r}, values={score!r})"
    return _saving(path, pivot, has_image_ids=True, has_caption_ids=True)


def _target(path: Path) -> str:
    return f"{path}.npz"


def _cells(line: str, separator: str | None) -> list[str]:
    text = line.rstrip("\r\n")
    return text.split() if separator is None else next(csv.reader([text], delimiter=separator))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _is_whole(text: str) -> bool:
    return _WHOLE.fullmatch(text.strip()) is not None


def _counts(names: Sequence[str]) -> bool:
    """Whether names are numbers from 0 or 1 on, which pandas gives rows and columns without any."""
    return any(list(names) == [str(start + n) for n in range(len(names))] for start in (0, 1))
