"""The ids of a file's rows: read, and matched with those of a corpus."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pipeline.embeddings.source import MAX_ID, MAX_ROWS
from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.runtime.process import say
from pipeline.runtime.text import Problems, printable, read_json, read_text
from pipeline.storage.npy import Header, check_plain, check_size, read_header

BESIDE = (".ids.txt", ".ids.json", ".ids.npy")
ROWS = 1 << 14  # ids decoded at once
HINT = (
    "ids are compared letter by letter with image_id and caption_id of the corpus; other_ids: skip "
    "leaves out rows that it does not have"
)


def ids_beside(path: Path) -> tuple[Path, list[str]]:
    """The file of ids beside X.npy or X.safetensors, and the ids.

    It is X.ids.txt with an id per line, X.ids.json with a list, or X.ids.npy. Raises WorkbenchError
    when there is none or more than one, or when it holds anything else.
    """
    places = [path.with_name(path.stem + ending) for ending in BESIDE]
    there = [place for place in places if place.is_file()]
    if len(there) != 1:
        found = f"both {listing(there)}" if there else "no ids beside it"
        names = listing(place.name for place in places)
        raise WorkbenchError(f"{path}: {found}", f"put the ids of the rows into one of {names}")
    (place,) = there
    if place.suffix == ".txt":
        return place, text_ids(place)
    if place.suffix == ".json":
        return place, listed_ids(read_json(place), str(place))
    with open(place, "rb") as handle:
        header = read_header(handle, str(place))
        check_ids(header, place.stat().st_size, str(place))
        blocks = (
            np.fromfile(handle, header.dtype, min(ROWS, header.shape[0] - start))
            for start in range(0, header.shape[0], ROWS)
        )
        return place, array_ids(blocks, str(place))


def text_ids(path: Path) -> list[str]:
    """Ids in a text file, one a line; WorkbenchError naming a file that is no text."""
    # not splitlines: ids may hold characters that it takes for line ends
    return [line.removesuffix("\r") for line in read_text(path).removesuffix("\n").split("\n")]


def listed_ids(values: object, place: str) -> list[str]:
    """Ids in a JSON list of texts or whole numbers.

    Args:
        values: what the file holds.
        place: what the message begins with.

    Raises:
        WorkbenchError: it is anything else.
    """
    if not isinstance(values, list) or any(type(value) not in (str, int) for value in values):
        raise WorkbenchError(f"{place}: not a list of ids")
    return [str(value) for value in values]


def check_ids(header: Header, found: int, place: str) -> None:
    """Refuse an array that cannot be ids.

    Args:
        header: of the array.
        found: bytes that are there, the header's included.
        place: what messages begin with.

    Raises:
        WorkbenchError: not one-dimensional, not of texts or whole numbers, or too large.
    """
    check_plain(header, place, "np.array(ids, dtype=str)")
    if header.dtype.kind not in "USiu" or len(header.shape) != 1:
        raise WorkbenchError(
            f"{place}: type {header.dtype} of shape {header.shape}; expected are ids (N,), texts "
            "or whole numbers"
        )
    if header.dtype.itemsize > 4 * MAX_ID or header.shape[0] > MAX_ROWS:
        raise WorkbenchError(f"{place}: {header.shape[0]:,} ids of {header.dtype.itemsize:,} bytes")
    check_size(header, found, place)


def array_ids(blocks: Iterator[np.ndarray], place: str) -> list[str]:
    """Ids in blocks of an array of texts, bytes or whole numbers.

    Args:
        blocks: (B,) each.
        place: what the message begins with.

    Raises:
        WorkbenchError: bytes that are not UTF-8, texts that are no characters.
    """
    found: list[str] = []
    try:
        for block in blocks:
            values = block.tolist()
            kind = block.dtype.kind
            if kind == "S" or (kind == "O" and values and isinstance(values[0], bytes)):
                found += [value.decode() for value in values]
            else:
                found += map(str, values)
    except (UnicodeDecodeError, ValueError):
        raise WorkbenchError(f"{place}: ids that are no texts in UTF-8") from None
    return found


def matched(
    place: str, found: Sequence[str], wanted: Sequence[str], skip: bool
) -> npt.NDArray[np.int64]:
    """Where each row of a file belongs.

    Args:
        place: the file, for messages.
        found: N ids in the order of its rows.
        wanted: M different ids of the corpus.
        skip: leave out rows of other ids, saying how many, instead of raising.

    Returns:
        (N,) rows of the corpus, -1 for those that are left out.

    Raises:
        WorkbenchError: ids that occur twice, with their rows, ids of the corpus without a row, and
            ids that the corpus does not have, all at once.
    """
    if list(found) == list(wanted):
        return np.arange(len(found))
    rows = {name: row for row, name in enumerate(wanted)}
    places = np.fromiter((rows.get(name, -1) for name in found), np.int64, len(found))
    others, inside = np.flatnonzero(places < 0), np.flatnonzero(places >= 0)
    counts = np.bincount(places[inside], minlength=len(wanted))
    again = inside[counts[places[inside]] > 1]
    firsts = np.unique(places[again], return_index=True)[1]
    missing = np.flatnonzero(counts == 0).tolist()
    problems = Problems(place)
    problems.add("ids more than once", _rows(found, np.delete(again, firsts)))
    problems.add("ids of the corpus without a row", [wanted[row] for row in missing])
    if not skip:
        problems.add("ids that are not in the corpus", _rows(found, others))
    problems.raise_if_any(HINT)
    if len(others):
        say(f"{place}: left out {len(others):,} rows of ids that are not in the corpus")
    return places


def _rows(names: Sequence[str], rows: npt.NDArray[np.int64]) -> list[str]:
    """Rows of a file as a message names them."""
    return [f"{printable(names[row][:100])} (row {row:,})" for row in rows.tolist()]
