"""Whether the other names in a file say the same of its rows as the ids that are read.

`numpy.arange(N)` beside the rows is also a list of Karpathy's sentids, or of images called by
numbers. Where the file has texts, paths or names too, they tell.
"""

import re
from collections.abc import Iterator, Sequence

from pipeline.features.arrays.file import ArrayFile
from pipeline.features.arrays.ids import texts_in
from pipeline.features.imports import Wanted
from pipeline.features.matching.images import ImageMatcher
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.text import printable

MOST_ARRAYS = 20  # of a file in which other names are looked for
_WORD = re.compile(r"\w+")


def check_names_agree(
    file: ArrayFile, used: str, ids: Sequence[str], wanted: Wanted, way_out: str
) -> None:
    """Refuse ids that other names in the same file contradict.

    Args:
        file: the file, or one whose ids lie beside it.
        used: the array that the ids are from; empty where they are not from it.
        ids: of its N rows, as the corpus has them; those of no row of the corpus say nothing.
        wanted: images or captions.
        way_out: what to do, for the message.

    Raises:
        WorkbenchError: an array of N texts names images or captions of the corpus, for half of the
            rows or more, and another one than the ids in some row.
    """
    if len(file.names) > MOST_ARRAYS:
        return
    said = dict(zip(wanted.table[wanted.key], wanted.table["image_id"], strict=True))
    images = [said.get(name) for name in ids]
    spoken: dict[str, str] = {}
    if not wanted.are_images and "text" in wanted.table:
        own_words = map(words_of, wanted.table["text"])
        spoken = dict(zip(wanted.table[wanted.key], own_words, strict=True))
    texts = [spoken.get(name) for name in ids]
    known = set(spoken.values())
    matcher = ImageMatcher(list(dict.fromkeys(wanted.table["image_id"])))
    for name, values in _lists(file, used, len(ids)):
        in_words = [words_of(value) for value in values]
        spoken_here = [own if own in known else None for own in in_words]
        for meant, of_ids in ((matcher.meant(values), images), (spoken_here, texts)):
            row = _first_difference(meant, of_ids)
            if row is not None:
                raise WorkbenchError(
                    f"{file.path}: row {row:,} (from 0) is {printable(ids[row])} by "
                    f"{used or 'its ids'}, and {printable(values[row])} by {name}",
                    way_out,
                )


def _lists(file: ArrayFile, used: str, count: int) -> Iterator[tuple[str, list[str]]]:
    """The other arrays of N texts."""
    for name in file.names:
        array = file.get(name) if name not in ("", used) else None
        if array is not None and array.shape == (count,) and array.dtype.kind in "USO":
            yield name, texts_in(array)


def _first_difference(meant: Sequence[str | None], of_ids: Sequence[str | None]) -> int | None:
    """The first row of which two lists say different things, if one is known in half of the rows;
    None where they agree, or one knows too little."""
    pairs = list(zip(meant, of_ids, strict=True))
    if 2 * sum(own is not None for own in meant) < len(pairs):
        return None
    return next(
        (row for row, (one, other) in enumerate(pairs) if one and other and one != other), None
    )


def words_of(text: str) -> str:
    """The words of a text, which other programs write without capitals and full stops.

    Args:
        text: of a caption, or an id.

    Returns:
        The words in small letters, a blank between two.
    """
    return " ".join(_WORD.findall(text)).casefold()
