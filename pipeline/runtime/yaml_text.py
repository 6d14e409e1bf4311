"""YAML from outside as plain values: what a few lines may unfold to is counted before it is made.

Eight levels of aliases in 470 bytes stand for millions of values: an alias counts as its anchor.
"""

import math
import re
from copy import deepcopy
from functools import lru_cache
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import Node, ScalarNode

from pipeline.runtime.errors import WorkbenchError, first_line
from pipeline.runtime.text import Values, refuse_conflict

MAX_CHARACTERS = 1 << 18
MAX_VALUES = 20_000  # keys and values of a text, aliases unfolded
MAX_OPEN = 100  # brackets open at once: the parser's time grows with their square
UNDO = "undo with: touch params.yaml && git checkout params.yaml"
COMPLETE = "keys that params.yaml lacks are added with: vse complete"


def plain_yaml(text: str, where: str, hint: str = "") -> Any:
    """The value of a YAML 1.2 text, of plain types.

    Args:
        text: at most MAX_CHARACTERS, of at most MAX_VALUES keys and values with its aliases
            unfolded.
        where: it comes from, at the beginning of messages.
        hint: the way out, for messages.

    Returns:
        A copy that the caller may change.

    Raises:
        WorkbenchError: it is no YAML, or too large.
    """
    if len(text) > MAX_CHARACTERS:
        raise WorkbenchError(
            f"{where}: {len(text):,} characters; allowed are {MAX_CHARACTERS:,}", hint
        )
    try:
        return deepcopy(_parse(text))
    except MarkedYAMLError as error:
        mark = error.problem_mark
        line = f", line {mark.line + 1}" if mark else ""
        raise WorkbenchError(f"{where}{line}: not valid YAML: {error.problem}", hint) from None
    except (YAMLError, RecursionError, ValueError, TypeError, LookupError) as error:
        raise WorkbenchError(f"{where}: not valid YAML: {first_line(error)}", hint) from None


@lru_cache(maxsize=16)  # a command reads dvc.yaml up to ten times, at 70 ms each
def _parse(text: str) -> Any:
    yaml = YAML(typ="safe", pure=True)
    depth = 0
    for bracket in re.findall(r"[][{}]", text):
        depth = max(depth + (1 if bracket in "[{" else -1), 0)
        if depth > MAX_OPEN:
            raise ValueError(f"more than {MAX_OPEN} brackets are open at once")
    if "*" in text and _count_values(yaml.compose(text), {}) > MAX_VALUES:
        raise ValueError(f"more than {MAX_VALUES:,} keys and values, aliases unfolded")
    return yaml.load(text)


def _count_values(node: Node, sizes: dict[int, float]) -> float:
    """Values that a node unfolds to, infinite for one that stands in itself; sizes: by its id."""
    if id(node) not in sizes:
        sizes[id(node)] = math.inf
        parts = [] if isinstance(node, ScalarNode) else node.value
        pairs = (part if isinstance(part, tuple) else (part,) for part in parts)
        sizes[id(node)] = 1 + sum(_count_values(inner, sizes) for pair in pairs for inner in pair)
    return sizes[id(node)]


def read_yaml(path: Path) -> Values:
    """The mapping in a YAML 1.2 file as plain values; WorkbenchError when it cannot be parsed."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise WorkbenchError(f"{path}: no such file", "run from the repository's root") from None
    except UnicodeDecodeError as error:
        raise WorkbenchError(f"{path}: not UTF-8 text (byte {error.start})", UNDO) from None
    refuse_conflict(text, path)
    values = plain_yaml(text, str(path), UNDO)
    if not isinstance(values, dict):
        raise WorkbenchError(f"{path}: expected a mapping of parameters at the top level", UNDO)
    return values


def plain_text(value: object) -> str:
    """A value of params.yaml as a text."""
    if isinstance(value, bool) or value is None:
        return "null" if value is None else str(value).lower()
    return f"[{', '.join(map(plain_text, value))}]" if isinstance(value, list) else str(value)
