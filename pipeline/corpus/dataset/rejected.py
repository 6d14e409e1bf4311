"""Rows that a column or field marks as rejected, deleted or false, and images in folders that are
called so: they are read, which is said."""

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence, Set

from pipeline.corpus.dataset.cells import plain_name
from pipeline.corpus.dataset.conditions import Conditions
from pipeline.corpus.dataset.splits import are_flags, is_flagged
from pipeline.runtime.errors import counted, listing

# Flags of rows that nobody wants, flags of those that somebody does, columns with words, dates of
# what was done to a row, and whether a caption is of its image.
_AGAINST = re.compile(
    r"(?:is_|was_|to_)?(?:reject(?:ed)?|deleted?|discard(?:ed)?|excluded?|falsified|cancel+ed|bad"
    r"|skip(?:ped)?|ignored?|removed?|drop(?:ped)?|trash(?:ed)?|spam|hidden|unusable|precanned)"
)
_FOR = re.compile(
    r"(?:is_|was_|to_)?(?:match(?:ed|es)?|accept(?:ed)?|approved?|valid(?:ated)?|correct|verified"
    r"|good|ok|okay|used?|keep|kept|included?|usable)"
)
# Of these each may be a class, so that 0 and 1 alone may say which captions are true.
_MAY_BE_TRUTH = re.compile(r"label|target|truth|ground_truth|gt|is_true|entail(?:ment|s)?|score")
_DECISIONS = re.compile(
    r"\w*(?:answer|status|state|decision|verdict|review|quality|approval|approved|mark)"
)
_DATES = re.compile(r"(?:reject(?:ed|ion)?|deleted?|discarded|removed|trashed)_(?:at|on|date|time)")
# Folders of what was put aside.
_ASIDE = re.compile(
    r"[_.~]*(?:reject(?:s|ed)?|trash(?:ed)?|discard(?:s|ed)?|deleted?|removed|excluded?|unwanted|bad"
    r"|duplicates?|old(?:er)?|backups?|bak|papierkorb|aussortiert|recycle[ _.-]?bin)",
    re.IGNORECASE,
)
_FALSE = frozenset({"0", "0.0", "false", "False"})
_TRUE = frozenset({"1", "1.0", "true", "True"})
_NO = frozenset(
    {"reject", "rejected", "delete", "deleted", "decline", "declined", "discard", "discarded"}
    | {"exclude", "excluded", "cancelled", "canceled", "ignore", "ignored", "invalid", "bad"}
    | {"poor", "spam", "trash", "trashed", "skip", "skipped", "unusable", "removed", "disapproved"}
    | {"failed", "not approved", "not_approved"}
)
_CROSSES = frozenset({"x", "\u2713", "\u2714"})
MOST_VALUES = 4  # of a column, of which the way out names all that are not marked


def rejected_folders(images: Collection[str]) -> tuple[str, ...]:
    """A line about images in folders that are called as if they were put aside.

    Args:
        images: paths of all images that are read.

    Returns:
        The line; none without such images, or without others.
    """
    aside = Counter(
        part for image in images for part in image.split("/")[:-1] if _ASIDE.fullmatch(part)
    )
    number = sum(any(part in aside for part in image.split("/")[:-1]) for image in images)
    if number in (0, len(images)):
        return ()
    return (
        f"{counted(number, 'image')} in folders called {listing(aside, 3)}: read as all others",
    )


def may_mark(name: str) -> bool:
    """Whether a column or field may say that rows are not wanted.

    Args:
        name: as its file writes it.
    """
    plain = _plain(name)
    return any(own.fullmatch(plain) for own in (_AGAINST, _FOR, _MAY_BE_TRUTH, _DECISIONS, _DATES))


def rejected_rows(cells: Mapping[str, Sequence[str]], conditions: Conditions) -> tuple[str, ...]:
    """Lines about rows that are marked as rejected.

    Args:
        cells: by column or field, what the rows have in those that are not read.
        conditions: corpus.rows.

    Returns:
        A line for each column or field that marks some; none without any.
    """
    lines = []
    for name, own in cells.items():
        if not may_mark(name) or conditions.have(name):
            continue
        plain = _plain(name)
        if _DATES.fullmatch(plain):
            lines += _dated(name, own, conditions)
        elif _FOR.fullmatch(plain) and _are_crosses(own):
            lines += _without_cross(name, own, conditions)
        else:
            lines += _marked(name, own, conditions)
    return tuple(lines)


def _plain(name: str) -> str:
    """A name of a column without a question mark: `Approved?`"""
    return plain_name(name).strip("?!_")


def _dated(name: str, cells: Sequence[str], conditions: Conditions) -> list[str]:
    """The line about rows with a date in a column such as `deleted_at`."""
    number = sum(map(bool, cells))
    way_out = conditions.with_value(name, "")
    return [_line(number, f"marked by {name}", way_out)] if 0 < number < len(cells) else []


def _are_crosses(cells: Sequence[str]) -> bool:
    """Whether some cells are crosses and all others empty."""
    words = {cell.lower() for cell in cells}
    return "" in words and words > {""} and words <= _CROSSES | {""}


def _without_cross(name: str, cells: Sequence[str], conditions: Conditions) -> list[str]:
    """The line about rows without a cross in a column such as `use`."""
    number = sum(not cell for cell in cells)
    cross = next(filter(None, cells))
    return [_line(number, f"not marked in {name}", conditions.with_value(name, cross))]


def _marked(name: str, cells: Sequence[str], conditions: Conditions) -> list[str]:
    """The lines about rows with words or flags against them."""
    numbers = Counter(cells)
    against = [cell for cell in numbers if _is_against(_plain(name), cell, numbers.keys())]
    others = [cell for cell in numbers if cell not in against]
    way_out = conditions.text
    if 0 < len(others) <= MOST_VALUES and not any("," in cell for cell in others):
        for cell in others:
            way_out = f"{way_out},{name}={cell}" if way_out else f"{name}={cell}"
    else:
        way_out = f"{name}=..."
    return [_line(numbers[cell], f"marked {name} = {cell}", way_out) for cell in against]


def _is_against(name: str, cell: str, cells: Set[str]) -> bool:
    """Whether a cell says that its row is not wanted."""
    if _AGAINST.fullmatch(name):
        return is_flagged(cell) or cell.lower() in _CROSSES
    if _MAY_BE_TRUTH.fullmatch(name):
        return cell in _FALSE and cells <= _FALSE | _TRUE and not _TRUE.isdisjoint(cells)
    if _FOR.fullmatch(name) and are_flags(cells):
        return cell != "" and not is_flagged(cell)
    return cell.lower() in _NO


def _line(number: int, how: str, way_out: str) -> str:
    rows = f"{counted(number, 'row')} {'is' if number == 1 else 'are'} {how}"
    return f"{rows}: read as all others; corpus.rows: {way_out} leaves them out"
