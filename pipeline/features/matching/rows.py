"""Rows of a file beside those of the corpus: each once, none missing, none to spare."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from pipeline.runtime.process import say
from pipeline.runtime.text import Problems, printable


def corpus_rows(
    place: str, found: Sequence[str], wanted: Sequence[str], skip: bool, hint: str
) -> npt.NDArray[np.int64]:
    """Which row of the corpus each row of a file is.

    Args:
        place: of the ids, which messages begin with.
        found: N ids of the file.
        wanted: M ids of the corpus.
        skip: leave out rows of ids that the corpus does not have.
        hint: the way out, for the message.

    Returns:
        (N,) rows of the corpus, -1 for those that are left out.

    Raises:
        WorkbenchError: for all ids at once that occur twice, that lack a row, or that the corpus
            does not have.
    """
    if list(found) == list(wanted):
        return np.arange(len(found))
    rows = {name: row for row, name in enumerate(wanted)}
    places = np.fromiter((rows.get(name, -1) for name in found), np.int64, len(found))
    others = np.flatnonzero(places < 0)
    inside = np.flatnonzero(places >= 0)
    counts = np.bincount(places[inside], minlength=len(wanted))
    again = inside[counts[places[inside]] > 1]
    firsts = np.unique(places[again], return_index=True)[1]
    missing = np.flatnonzero(counts == 0).tolist()
    problems = Problems(place)
    problems.add("ids more than once", _rows(found, np.delete(again, firsts)))
    problems.add("ids of the corpus without a row", [wanted[row] for row in missing])
    if not skip:
        problems.add("ids that are not in the corpus", _rows(found, others))
    problems.raise_if_any(hint)
    if len(others):
        say(f"{place}: left out {len(others):,} rows of ids that are not in the corpus")
    return places


def _rows(names: Sequence[str], rows: npt.NDArray[np.int64]) -> list[str]:
    return [f"{printable(names[row][:100])} (row {row:,})" for row in rows.tolist()]
