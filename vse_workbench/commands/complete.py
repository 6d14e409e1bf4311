"""Bring a params.yaml of an earlier version up to date."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import click

from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.files import write_text
from pipeline.runtime.recipes import merge, value_text
from pipeline.runtime.rewriting import rewritten_yaml
from pipeline.runtime.text import Values
from pipeline.runtime.yaml_text import UNDO, read_yaml
from stages.common import command
from stages.params import NAMED, default_values, find_problems

GROUP = "settings"


@command
def main() -> None:
    """Insert the keys that params.yaml lacks, with their defaults, and print each; all other lines
    stay. What only you can mend is named.

    Example: vse complete
    """
    params = Path("params.yaml")
    values, lines = with_every_key(read_yaml(params), default_values())
    if lines:
        write_text(params, rewritten_yaml(params.read_bytes().decode("utf-8"), values, str(params)))
    click.echo("\n".join(lines) or f"{params} has every key")
    problems = list(find_problems(values))
    if problems:
        raise WorkbenchError(f"{params} is not valid yet:\n  " + "\n  ".join(problems), UNDO)


def with_every_key(values: Values, defaults: Values) -> tuple[Values, list[str]]:
    """The values of a params.yaml with every key.

    Args:
        values: of the file.
        defaults: of every key.

    Returns:
        All values, and a line for every key that came.
    """
    before = dict(values)
    for section in defaults:
        if before.get(section, ...) is None and isinstance(defaults[section], dict):
            before[section] = {}  # written without keys
    whole = merge(defaults, before) | {name: before[name] for name in NAMED if name in before}
    return whole, list(_inserted_lines(before, whole))


def _inserted_lines(before: Values, after: Mapping[str, object], at: str = "") -> Iterator[str]:
    for name, value in after.items():
        if isinstance(value, Mapping) and value:
            yield from _inserted_lines(before.get(name, {}), value, f"{at}{name}.")
        elif name not in before:
            yield f"{at}{name} = {value_text(value)}: inserted"
