"""A params.yaml of an earlier version, completed: new keys put in, renamed ones moved.

New keys come, comments and all, from a reference: recipes/default.yaml, whose bytes params.yaml
has in every commit (a test compares them). It is a file of its own because it has to be whole and
documented where params.yaml is not: after a merge that kept an old params.yaml git's version lacks
the keys too, and defaults in the sections' types would have no comments. It is
also what recipes are laid over, and by itself the recipe that brings all defaults back.
"""

import copy
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from pipeline.runtime.blocks import Block, blocks_of
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.recipes import replaced, shown
from pipeline.runtime.yaml_text import read_yaml

Moved = Mapping[str, tuple[str, ...]]
Keys = tuple[str, ...]
HINT = "write its section as lines `key: value`, without braces and aliases, and run this again"


@dataclass(frozen=True)
class Insertion:
    """Lines that bring a missing key.

    Attributes:
        keys: of its sections and its own.
        value: its default.
        lines: its text, not indented.
        at: the line before which they go.
        column: their indentation.
    """

    keys: Keys
    value: Any
    lines: list[str]
    at: int
    column: int


def completed(
    params: Path, reference: Path, moved: Moved, named: Collection[str] = ()
) -> tuple[str, list[str]]:
    """The text of a params.yaml with all keys of the reference; all else keeps its bytes.

    Args:
        params: the file to complete.
        reference: one with every key, its default and its comments.
        moved: keys of earlier versions, dots between names, each with the keys that took its place
            and take over its value, as a list of one where they hold lists; none for a key that is
            read no more.
        named: sections whose keys are names that the user chose: such a section is put in where it
            lacks, and left alone where it stands.

    Returns:
        The text, and a line for every key that came or went.

    Raises:
        WorkbenchError: a file cannot be parsed, or a section that lacks keys is not written as one
            key a line.
    """
    values, text, lines = read_yaml(params), _text(params), []
    source, defaults = _text(reference), read_yaml(reference)
    carried: dict[str, Any] = {}
    for old, places in _moves(values, moved):
        lines.append(f"{'.'.join(old)} = {shown(_get(values, old))}: {_fate(places)}")
        for place in places:
            value = _get(values, old)
            single = isinstance(_get(defaults, place), list) and not isinstance(value, list)
            _put(carried, place, [value] if single else value)
        text = _without(text, old, params)
        _remove(values, old)
    if carried:
        source, _ = replaced(source, carried)
        defaults = _plain(source)
    alone = {**defaults, **dict.fromkeys(set(named) & set(values), ...)}  # not looked into
    found = list(_missing(blocks_of(text), blocks_of(source), alone, params))
    for insertion in found:
        if _has(values, insertion.keys):  # by a merge of another mapping, `<<: *other`
            raise _refusal(params, insertion.keys)
        _put(values, insertion.keys, copy.deepcopy(insertion.value))
        lines += [f"{key} = {shown(value)}: inserted" for key, value in _leaves(insertion)]
    text = _inserted(text, found)
    _check(text, values, params)
    return text, lines


def _moves(values: dict[str, Any], moved: Moved) -> list[tuple[Keys, list[Keys]]]:
    """The keys that leave and those that take their place.

    A key stays, for check_params to name, where one that took its place has a value of its own.
    """
    split = [
        (tuple(old.split(".")), [tuple(new.split(".")) for new in places])
        for old, places in moved.items()
    ]
    return [
        (old, places)
        for old, places in split
        if _has(values, old) and not any(_has(values, place) for place in places)
    ]


def _fate(places: list[Keys]) -> str:
    return f"moved to {', '.join(map('.'.join, places))}" if places else "removed"


def _without(text: str, keys: Keys, params: Path) -> str:
    """A text without a key and the comments above it."""
    block = blocks_of(text)
    for name in keys[:-1]:
        block = block.below(name) or block
    if not block.by_line:
        raise _refusal(params, keys)
    start, end = block.span(keys[-1])
    return "".join(block.lines[:start] + block.lines[end:])


def _missing(
    here: Block, there: Block, defaults: dict[str, Any], params: Path, keys: Keys = ()
) -> Iterator[Insertion]:
    """What `here` lacks of the keys of `there`, in their order."""
    order = list(there.entries)
    for name in order:
        path = (*keys, name)
        if name not in here.entries:
            if not here.by_line:
                raise _refusal(params, path)
            at = here.place_for(name, order)
            yield Insertion(path, defaults[name], there.text_of(name), at, here.column)
        elif isinstance(defaults[name], dict):
            own, full = here.below(name), there.below(name)
            if own and full:
                yield from _missing(own, full, defaults[name], params, path)


def _inserted(text: str, insertions: list[Insertion]) -> str:
    lines = text.splitlines(keepends=True)
    end = "\r\n" if lines[0].endswith("\r\n") else "\n"
    if not lines[-1].endswith(("\n", "\r")):
        lines[-1] += end
    # From the end, so that no line moves before its turn. Of two at the same line the deeper comes
    # first in the file: it ends the section behind which the other stands.
    for insertion in reversed(sorted(insertions, key=lambda i: (i.at, -i.column))):
        indent = " " * insertion.column
        new = [(indent + line).rstrip() + end for line in insertion.lines]
        lines[insertion.at : insertion.at] = new
    return "".join(lines)


def _check(text: str, expected: dict[str, Any], params: Path) -> None:
    """Raise WorkbenchError unless a text says what is expected: some forms of YAML are too odd to
    be cut into lines."""
    try:
        right = _plain(text) == expected
    except YAMLError:
        right = False
    if not right:
        raise WorkbenchError(f"{params} is written in a form that cannot be completed", HINT)


def _refusal(params: Path, keys: Keys) -> WorkbenchError:
    return WorkbenchError(f"{params}: no line can be put in or out for {'.'.join(keys)}", HINT)


def _text(path: Path) -> str:
    return path.read_bytes().decode("utf-8")  # read_text would change the ends of lines


def _plain(text: str) -> Any:
    return YAML(typ="safe", pure=True).load(text)


def _leaves(insertion: Insertion) -> Iterator[tuple[str, Any]]:
    def walk(keys: Keys, value: Any) -> Iterator[tuple[str, Any]]:
        if isinstance(value, dict) and value:
            for name, inner in value.items():
                yield from walk((*keys, name), inner)
        else:
            yield ".".join(keys), value

    return walk(insertion.keys, insertion.value)


def _get(values: dict[str, Any], keys: Keys) -> Any:
    node: Any = values
    for name in keys:
        node = node.get(name) if isinstance(node, dict) else None
    return node


def _has(values: dict[str, Any], keys: Keys) -> bool:
    section = _get(values, keys[:-1])
    return isinstance(section, dict) and keys[-1] in section


def _put(values: dict[str, Any], keys: Keys, value: Any) -> None:
    for name in keys[:-1]:
        if values.get(name) is None:  # an empty section is null
            values[name] = {}
        values = values[name]
    values[keys[-1]] = value


def _remove(values: dict[str, Any], keys: Keys) -> None:
    section = _get(values, keys[:-1])
    del section[keys[-1]]
    if keys[:-1] and not section:
        _put(values, keys[:-1], None)
