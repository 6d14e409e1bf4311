"""Where the keys of a YAML text stand, so that lines can be put between them and taken out.

Writing a parsed file back would quote, indent and break anew what nobody asked to touch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode

STEP = 2  # columns that the keys of an empty section are indented by


@dataclass(frozen=True)
class Block:
    """A mapping in a YAML text; lines are counted from 0.

    Attributes:
        lines: of the whole text, with their ends.
        entries: key and value nodes by name.
        column: where its keys begin.
        end: the line after its last.
        by_line: whether its keys have lines of their own, which they lack between braces and in an
            alias.
    """

    lines: list[str]
    entries: dict[str, tuple[Any, Any]]  # ruamel.yaml.nodes.Node
    column: int
    end: int
    by_line: bool

    def below(self, name: str) -> "Block | None":
        """The mapping under a key, empty for null; None when there is another value."""
        key, value = self.entries[name]
        by_line = self.by_line and not _is_alias(key, value)
        if isinstance(value, MappingNode):
            return _block(self.lines, value, by_line)
        if value.tag.endswith(":null"):
            indent = key.start_mark.column + STEP
            return Block(self.lines, {}, indent, _end(key, value), by_line and not value.value)
        return None

    def span(self, name: str) -> tuple[int, int]:
        """First line of a key with the comments and blank lines above it, and the one after it."""
        key, value = self.entries[name]
        start = key.start_mark.line
        while start and self.lines[start - 1].lstrip().startswith("#"):
            start -= 1
        while start and not self.lines[start - 1].strip():
            start -= 1
        return start, _end(key, value)

    def place_for(self, name: str, order: Sequence[str]) -> int:
        """The line before which a missing key goes: behind the nearest key that precedes it in
        `order`, else before the first that follows."""
        place = order.index(name)
        before = [other for other in order[:place] if other in self.entries]
        after = [other for other in (*order[place:], *self.entries) if other in self.entries]
        if before:
            return self.span(before[-1])[1]
        return self.span(after[0])[0] if after else self.end

    def text_of(self, name: str) -> list[str]:
        """The lines of a key without the indentation of this mapping."""
        start, end = self.span(name)
        return [line[self.column :] if line.strip() else line for line in self.lines[start:end]]


def blocks_of(text: str) -> Block:
    """The whole of a text that holds a mapping; ruamel's YAMLError for one that does not parse."""
    node = YAML(typ="safe", pure=True).compose(text)
    return _block(text.splitlines(keepends=True), node, True)


def _block(lines: list[str], node: MappingNode, by_line: bool) -> Block:
    entries = {key.value: (key, value) for key, value in node.value if isinstance(key, ScalarNode)}
    if node.flow_style or not node.value:
        return Block(lines, entries, 0, 0, False)
    return Block(lines, entries, node.value[0][0].start_mark.column, _end(*node.value[-1]), by_line)


def _end(key: Any, value: Any) -> int:
    """The line after the last one of a value; comments that follow it are not its own."""
    empty = value.start_mark.index == value.end_mark.index  # its mark is that of what follows
    if empty or _is_alias(key, value):
        return int(key.end_mark.line) + 1
    if isinstance(value, MappingNode | SequenceNode) and not value.flow_style and value.value:
        last = value.value[-1]
        return _end(*last) if isinstance(last, tuple) else _end(key, last)
    mark = value.end_mark
    return int(mark.line) + (mark.column > 0)


def _is_alias(key: Any, value: Any) -> bool:
    """Whether a value stands elsewhere: an anchor always comes before its alias."""
    return bool(value.start_mark.index < key.start_mark.index)
