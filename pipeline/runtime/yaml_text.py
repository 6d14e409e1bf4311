"""YAML from outside as plain values: what a few lines may unfold to is counted before it is made.

Eight levels of aliases in 470 bytes stand for millions of values: an alias counts as its anchor.
"""

import io
from copy import deepcopy
from functools import lru_cache
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    CollectionStartEvent,
    ScalarEvent,
)

from pipeline.runtime.errors import WorkbenchError, first_line

MAX_BYTES = 1 << 18
MAX_VALUES = 20_000
UNDO = "undo with: touch params.yaml && git checkout params.yaml"
COMPLETE = "keys that params.yaml lacks are added with: vse complete"


def plain_yaml(
    text: str, where: str, hint: str = "", max_bytes: int = MAX_BYTES, max_values: int = MAX_VALUES
) -> Any:
    """The value of a YAML 1.2 text; WorkbenchError for one that is too large or cannot be parsed.
    where: what messages begin with; max_values: keys and values that it may unfold to."""
    if len(text) > max_bytes:
        message = f"{where}: {len(text):,} characters; allowed are {max_bytes:,}"
        raise WorkbenchError(message, hint)
    try:
        problem = _excess(text, max_values) if "*" in text else ""
        if not problem:
            return deepcopy(_parsed(text))
    except MarkedYAMLError as error:
        mark = error.problem_mark
        place = f", line {mark.line + 1}" if mark else ""
        raise WorkbenchError(f"{where}{place}: not valid YAML: {error.problem}", hint) from None
    except (YAMLError, RecursionError, ValueError, TypeError, LookupError) as error:
        raise WorkbenchError(f"{where}: not valid YAML: {first_line(error)}", hint) from None
    raise WorkbenchError(f"{where}: {problem}", hint)


@lru_cache(maxsize=16)  # a command reads dvc.yaml up to ten times, at 70 ms each
def _parsed(text: str) -> Any:
    return YAML(typ="safe", pure=True).load(text)


@lru_cache(maxsize=16)
def _excess(text: str, max_values: int) -> str:
    """What aliases make too much of, "" for nothing."""
    sizes: dict[str, int] = {}  # of what anchors name, once it is complete
    inside: list[tuple[str | None, int]] = []  # anchor and values before, of what is not complete
    count = 0
    for event in YAML(typ="safe", pure=True).parse(io.StringIO(text)):
        if isinstance(event, AliasEvent):
            if event.anchor not in sizes:
                return f"the alias *{event.anchor} names what it stands in, or nothing before it"
            count += sizes[event.anchor]
        elif isinstance(event, ScalarEvent):
            count += 1
            if event.anchor:
                sizes[event.anchor] = 1
        elif isinstance(event, CollectionStartEvent):
            inside.append((event.anchor, count))
            count += 1
        elif isinstance(event, CollectionEndEvent):
            anchor, before = inside.pop()
            if anchor:
                sizes[anchor] = count - before
        if count > max_values:
            return f"more than {max_values:,} keys and values, aliases unfolded"
    return ""


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping in a YAML 1.2 file as plain values; WorkbenchError when it cannot be parsed."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise WorkbenchError(f"{path}: no such file", "run from the repository's root") from None
    except UnicodeDecodeError as error:
        raise WorkbenchError(f"{path}: not UTF-8 text (byte {error.start})", UNDO) from None
    values = plain_yaml(text, str(path), UNDO)
    if not isinstance(values, dict):
        raise WorkbenchError(f"{path}: expected a mapping of parameters at the top level", UNDO)
    return values
