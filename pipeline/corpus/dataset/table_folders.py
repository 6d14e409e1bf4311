"""A table that has the folder of an image in one column and its file in another, as photo programs
write it: an album and a name. Files of one name in several folders are told apart by it.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import pandas as pd

from pipeline.corpus.dataset.folder import (
    Folder,
    composed,
    joined,
    shared_parts,
    with_slashes,
    without_ending,
)
from pipeline.corpus.dataset.table_form import Form

MOST_OF = 0.9  # of the rows, of which the others may lack their files
FIRST = 10  # values of a column by which it is judged first


def with_folders(folder: Folder, form: Form, cells: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """The fields of a table, the images named with their folders where another column has these.

    Args:
        folder: the files of the user's folder.
        form: that of the table.
        cells: its fields, a column for each of the table's, named by their places.

    Returns:
        The fields, and the name of the column of folders. The names become paths inside the user's
        folder where such a column leads to the files of nearly all rows, and some name is that of
        several files or has several folders; otherwise they stay, and the name is "".
    """
    names = cells[form.image].str.strip()
    if not form.has_header or names.str.contains(r"[/\\]").any():
        return cells, ""
    keys = names.map(without_ending)
    wanted = set(keys)
    numbers = Counter(
        file
        for files in folder.files.values()
        for file in set(map(without_ending, files))
        if file in wanted
    )
    read = {form.image, form.split, form.number, *form.captions}
    found: dict[str, pd.Series] = {}
    for place in range(form.width):
        if place in read or not form.names[place]:
            continue
        values = cells[place].astype(str).str.strip()
        rows = pd.DataFrame({"value": values, "key": keys}).drop_duplicates()
        if max(numbers.values(), default=0) < 2 and not rows["key"].duplicated().any():
            continue
        folders = _folders(folder, rows)
        if not folders:
            continue
        inside = [
            (folders.get(value, with_slashes(value)), name)
            for value, name in zip(values, names, strict=True)
        ]
        stems = {own: set(map(without_ending, folder.files.get(own, ()))) for own, _ in set(inside)}
        present = sum(key in stems[own] for (own, _), key in zip(inside, keys, strict=True))
        if present >= MOST_OF * len(inside):
            found[form.names[place]] = pd.Series([joined(*own) for own in inside], cells.index)
    paths = list(found.values())
    if not paths or any((own != paths[0]).any() for own in paths[1:]):
        return cells, ""
    named = cells.copy(deep=False)
    named[form.image] = paths[0]
    return named, next(iter(found))


def _folders(folder: Folder, rows: pd.DataFrame) -> Mapping[str, str]:
    """The folders that the values of a column name.

    Args:
        folder: the files of the user's folder.
        rows: columns value, and key, the image's name without its ending.

    Returns:
        By value the path inside the user's folder whose last parts are the value's; of several the
        one with the most images of its rows. Empty where the first values name none.
    """
    by_last: dict[str, list[str]] = defaultdict(list)
    for place in filter(None, folder.files):
        by_last[composed(place.rpartition("/")[2])].append(place)
    values = rows["value"].unique().tolist()
    named = {value: _last(value) for value in values}
    if not any(named[value] in by_last for value in values[:FIRST]):
        return {}
    images = rows.groupby("value")["key"].agg(set)
    found = {}
    for value, last in named.items():
        best = _best(folder, by_last.get(last, ()), value, images[value])
        if best is not None:
            found[value] = best
    return found


def _last(value: str) -> str:
    """The last part of a folder's path, as tables have it."""
    return composed(with_slashes(value).rpartition("/")[2])


def _best(folder: Folder, places: Sequence[str], value: str, images: set[str]) -> str | None:
    """The folder that a value names: the one that shares the most last parts with it and then has
    the most of its images; None for none, or for several that fit equally well."""
    ranks = {
        place: (
            shared_parts(with_slashes(value), place),
            len(images.intersection(map(without_ending, folder.files[place]))),
        )
        for place in places
    }
    best = [place for place, rank in ranks.items() if rank == max(ranks.values())]
    return best[0] if len(best) == 1 else None
