"""Which words of a caption stand for which objects: marks `[kind#numbers words]` while it is made,
one inside another; numbers of objects are joined by +. No word of a world has brackets."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

_OPEN = re.compile(r"\[(\w+)#([\d+]+) ")
_FIRST = re.compile(r"((?:\[\w+#[\d+]+ )*)(\w)")
_PIECE = re.compile(r"\[\w+#[\d+]+ |\]|\w+")


@dataclass(frozen=True)
class Mention:
    """Words of a caption, from `first` to before `last`, that stand for objects of its scene by
    number. kind: object | several (counted or listed) | relation (an object, told by where it lies
    to others)."""

    kind: str
    numbers: tuple[int, ...]
    first: int
    last: int


def marked(kind: str, numbers: Iterable[int], text: str) -> str:
    """Words with the mark of what they stand for.

    Args:
        kind: object, several or relation (`Mention`).
        numbers: the objects, by their place in the scene.
        text: the words, perhaps with marks inside them.

    Returns:
        A mark such as `[object#2 a red circle]`, or `[several#0+3 two squares]`.
    """
    return f"[{kind}#{'+'.join(map(str, numbers))} {text}]"


def plain(text: str) -> str:
    """A caption without its marks."""
    return _OPEN.sub("", text).replace("]", "")


def capitalised(text: str) -> str:
    """A caption, marks inside it or not, with a capital letter at its beginning."""
    return _FIRST.sub(lambda match: match[1] + match[2].upper(), text, count=1)


def mentions(text: str) -> list[Mention]:
    """What the marks of a caption say, in the order in which they begin."""
    slots: list[Mention | None] = []
    open_marks: list[tuple[int, str, tuple[int, ...], int]] = []
    words = 0
    for piece in _PIECE.findall(text):
        if piece == "]":
            slot, kind, numbers, first = open_marks.pop()
            slots[slot] = Mention(kind=kind, numbers=numbers, first=first, last=words)
            continue
        mark = _OPEN.fullmatch(piece)
        if mark is None:
            words += 1
        else:
            numbers = tuple(map(int, mark[2].split("+")))
            open_marks.append((len(slots), mark[1], numbers, words))
            slots.append(None)
    return [mention for mention in slots if mention is not None]
