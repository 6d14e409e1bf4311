"""A YAML file with other values: only lines of keys that change are new, so comments stay.

New lines have the form of DVC's writer, so that a later `dvc exp run -S` changes no other line.
"""

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeGuard

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap

from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.text import Values
from pipeline.runtime.yaml_text import plain_yaml

WIDTH = 80  # of a line with a mapping in braces; DVC's writer breaks longer ones
HINT = "write its sections as lines `key: value`, without aliases, and run this again"


class Edit(NamedTuple):
    """Lines `start` to `end` (exclusive) become `lines`; column: of their key."""

    start: int
    column: int
    end: int
    lines: list[str]


def rewritten_yaml(text: str, values: Values, where: str) -> str:
    """A YAML text that says other values. Comments and lines of keys that stay are kept; what
    stands in braces is written as a whole.

    Args:
        text: YAML 1.2 with a mapping at its top.
        values: what it is to say, all keys in their order.
        where: the file, for messages.

    Returns:
        The new text, with the line ends of the old one.

    Raises:
        WorkbenchError: it has aliases or another form whose lines cannot be changed one by one.
    """
    before = plain_yaml(text, where)
    document = _round_trip().load(text)
    if before == values:
        return text
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = text.splitlines()
    if document.fa.flow_style():
        lines = _dump_lines(values)
    else:
        keys = _Document(lines, sorted(_places(document)))
        edits = sorted(keys.edits(document, before, values), key=lambda edit: edit[:3])
        for edit in reversed(edits):  # from the last line, so that no line moves before its turn
            lines[edit.start : edit.end] = edit.lines
    result = "".join(line + newline for line in lines)
    try:
        right = plain_yaml(result, where) == values
    except WorkbenchError:
        right = False
    if not right:
        raise WorkbenchError(f"{where}: its form does not let single keys be changed", HINT)
    return result


@dataclass(frozen=True)
class _Document:
    """Lines of a file, and (line, column) of every key that has a line of its own, ascending."""

    lines: list[str]
    places: list[tuple[int, int]]

    def edits(self, node: CommentedMap, before: Values, after: Values) -> Iterator[Edit]:
        """What changes in one mapping: `node` as ruamel parsed it, and its plain values."""
        positions = node.lc.data
        last = None
        first, column = min((line, column) for line, column, *_ in positions.values())
        for name in [*after, *(name for name in positions if name not in after)]:
            if name not in before:
                at = self._end(positions[last]) if last else self._start(first)
                yield Edit(at, -column, at, _inserted_lines(name, after[name], column))
            elif name in positions:
                line = positions[name][0]
                end = self._end(positions[name])
                if name not in after:
                    yield Edit(self._start(line, blank=True), -column, end, [])
                    continue
                last = name
                if _is_block(node[name]) and isinstance(after[name], Mapping) and after[name]:
                    yield from self.edits(node[name], before[name], after[name])
                elif before[name] != after[name]:
                    lines = _replaced_lines(name, before[name], after[name], column)
                    yield Edit(line, -column, end, [lines[0] + _comment(node, name), *lines[1:]])

    def _start(self, line: int, blank: bool = False) -> int:
        """The first line of the comments above a key, or of blank lines above these."""
        while line and self.lines[line - 1].lstrip().startswith("#"):
            line -= 1
        while blank and line and not self.lines[line - 1].strip():
            line -= 1
        return line

    def _end(self, position: Sequence[int]) -> int:
        """The line after the last one of the value of a key that stands at a line and column;
        comments that follow are not its own."""
        line, column, *_ = position
        later = (at for at, indent in self.places if at > line and indent <= column)
        end = next(later, len(self.lines))
        while end - 1 > line and self.lines[end - 1].lstrip()[:1] in ("", "#"):
            end -= 1
        return end


def _places(node: CommentedMap) -> Iterator[tuple[int, int]]:
    for name, (line, column, *_) in node.lc.data.items():
        yield line, column
        if _is_block(node[name]):
            yield from _places(node[name])


def _is_block(value: object) -> TypeGuard[CommentedMap]:
    return isinstance(value, CommentedMap) and bool(value.lc.data) and not value.fa.flow_style()


def _comment(node: CommentedMap, name: str) -> str:
    """The comment behind a key's value on its line, "" for none."""
    on_value = getattr(getattr(node[name], "ca", None), "comment", None) or [None]
    token = on_value[0] or (node.ca.items.get(name) or [None] * 3)[2]
    line = token.value.split("\n")[0] if token else ""
    return f"  {line}" if line.startswith("#") else ""


def _inserted_lines(name: str, value: object, column: int) -> list[str]:
    is_section = not column and isinstance(value, Mapping) and value
    return [""] * bool(is_section) + _indented({name: value}, column)


def _replaced_lines(name: str, before: object, after: object, column: int) -> list[str]:
    if isinstance(before, Mapping) and before:  # it stood in braces
        lines = _indented(CommentedMap({name: _in_braces(after)}), column)
        if len(lines[0]) <= WIDTH:
            return lines
    return _indented({name: after}, column)


def _indented(mapping: Mapping[str, object], column: int) -> list[str]:
    return [" " * column + line for line in _dump_lines(mapping)]


def _dump_lines(mapping: Mapping[str, object]) -> list[str]:
    text = io.StringIO()
    _round_trip().dump(mapping, text)
    return text.getvalue().splitlines()


def _in_braces(value: object) -> object:
    if isinstance(value, Mapping):
        mapping = CommentedMap({name: _in_braces(inner) for name, inner in value.items()})
        mapping.fa.set_flow_style()
        return mapping
    return value


def _round_trip() -> YAML:
    yaml = YAML(typ="rt")
    yaml.width = 4096  # a comment goes behind the first line of a value: it has no second one
    yaml.default_flow_style = False
    return yaml
