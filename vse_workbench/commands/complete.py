"""Bring a params.yaml of an earlier version up to date."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.files import write_text
from pipeline.runtime.recipes import merge, shown
from pipeline.runtime.rewriting import rewritten
from pipeline.runtime.yaml_text import UNDO, read_yaml
from stages.common import command
from stages.params import NAMED, default_values, find_problems

GROUP = "settings"


@command
@click.option("--params", type=click.Path(path_type=Path), default=Path("params.yaml"))
def main(params: Path) -> None:
    """Insert the keys that params.yaml lacks, with their defaults, and print each; all other lines
    stay. What only you can mend is named.

    Example: vse complete
    """
    values, lines = completed(read_yaml(params), default_values())
    if lines:
        write_text(params, rewritten(params.read_bytes().decode("utf-8"), values, str(params)))
    click.echo("\n".join(lines) or f"{params} has every key")
    if problems := list(find_problems(values)):
        raise WorkbenchError(f"{params} is not valid yet:\n  " + "\n  ".join(problems), UNDO)


def completed(
    values: Mapping[str, Any], defaults: Mapping[str, Any]
) -> tuple[dict[str, Any], list[str]]:
    """The values of a file with every key, and a line for every key that came."""
    own = dict(values)
    for section in defaults:
        if own.get(section, ...) is None and isinstance(defaults[section], dict):
            own[section] = {}  # written without keys
    whole = merge(defaults, own) | {name: own[name] for name in NAMED if name in own}
    came = (key for key in _leaves(whole) if _get(own, key) is ...)
    return whole, [f"{key} = {shown(_get(whole, key))}: inserted" for key in came]


def _get(values: Any, key: str) -> Any:
    """What stands at a dotted key, ... for nothing."""
    for name in key.split(".") if key else ():
        values = values.get(name, ...) if isinstance(values, Mapping) else ...
    return values


def _leaves(values: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"
