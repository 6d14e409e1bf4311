"""The ids of an array's rows, in its file or in a list beside it."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from pipeline.features.arrays.file import Array, ArrayFile
from pipeline.features.arrays.formats import open_arrays
from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.runtime.process import say
from pipeline.runtime.text import read_json, read_text

ENDINGS = (".txt", ".json", ".npy")
MAX_ID = 1 << 12  # characters
MAX_IDS = 1 << 25  # of a file; more is taken for damage


class Ids(NamedTuple):
    """The ids of an array's rows."""

    names: list[str]  # in the order of the rows
    path: Path | None  # of the list beside the file, None for ids inside it


def read_ids(file: ArrayFile, inside: str, beside: str = "ids") -> Ids | None:
    """The ids of a file's rows.

    Args:
        file: the file.
        inside: name of the array of ids in it, which is looked for first.
        beside: name of the list beside it: `ids` for `X.ids.txt` (one a line), `X.ids.json` or
            `X.ids.npy` of a file `X.*`.

    Returns:
        The ids, None where there are none.

    Raises:
        WorkbenchError: for ids that are no texts or numbers, and for several lists.
    """
    path = file_beside(file.path, beside)
    array = file.get(inside)
    if array is not None:
        if path:
            say(f"{file.path}: ids are those inside it, in {inside}; {path} is not read")
        return Ids(texts_in(array), None)
    return Ids(listed_ids(path), path) if path else None


def file_beside(path: Path, name: str = "ids") -> Path | None:
    """The list of ids beside a file.

    Args:
        path: of the file `X.*`.
        name: of the list: `ids` for `X.ids.txt`, `X.ids.json` or `X.ids.npy`.

    Returns:
        Its path, None where there is none.

    Raises:
        WorkbenchError: where there is more than one.
    """
    places = [path.with_name(f"{path.stem}.{name}{ending}") for ending in ENDINGS]
    files = [file for file in places if file.is_file()]
    if len(files) > 1:
        raise WorkbenchError(f"{path}: several lists of ids: {listing(files)}", "keep one of them")
    return files[0] if files else None


def text_ids(path: Path) -> list[str]:
    """Ids in a text file, one a line; WorkbenchError naming a file that is no text."""
    # not splitlines: ids may hold characters that it takes for line ends
    return [line.removesuffix("\r") for line in read_text(path).removesuffix("\n").split("\n")]


def listed_ids(path: Path) -> list[str]:
    """The ids in a list of .txt, .json or .npy."""
    if path.suffix == ".txt":
        return text_ids(path)
    if path.suffix == ".npy":
        return texts_in(open_arrays(path).array(""))
    values = read_json(path)
    if not isinstance(values, list) or any(type(value) not in (str, int) for value in values):
        raise WorkbenchError(f"{path}: not a list of ids")
    return [str(value) for value in values]


def texts_in(array: Array) -> list[str]:
    """Ids in an array.

    Args:
        array: (N,) of texts, bytes or whole numbers.

    Returns:
        The N ids.

    Raises:
        WorkbenchError: for values of other types.
    """
    if len(array.shape) != 1 or array.dtype.kind not in "USiuO":
        raise WorkbenchError(
            f"{array.place}: type {array.dtype} of shape {array.shape}; expected are ids (N,), "
            "texts in UTF-8 or whole numbers"
        )
    if array.dtype.itemsize > 4 * MAX_ID or array.shape[0] > MAX_IDS:
        raise WorkbenchError(
            f"{array.place}: {array.shape[0]:,} ids of {array.dtype.itemsize:,} bytes"
        )
    try:
        return list(_decoded(array))
    except ValueError:
        raise WorkbenchError(f"{array.place}: ids that are no texts in UTF-8") from None


def _decoded(array: Array) -> Iterator[str]:
    for block in array.blocks():
        for value in block.tolist():
            yield value.decode() if isinstance(value, bytes) else str(value)
