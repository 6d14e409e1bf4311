"""Bring a params.yaml of an earlier version up to date."""

from pathlib import Path

import click

from pipeline.runtime.completion import completed
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.files import write_text
from pipeline.runtime.yaml_text import UNDO, read_yaml
from stages.common import command
from stages.params import MOVED, NAMED, find_problems

GROUP = "settings"


@command
@click.option("--params", type=click.Path(path_type=Path), default=Path("params.yaml"))
@click.option(
    "--reference",
    type=click.Path(path_type=Path),
    default=Path("recipes/default.yaml"),
    help="File with every key, its default and its comments.",
)
def main(params: Path, reference: Path) -> None:
    """Insert the keys that params.yaml lacks, with their comments, and print each; all else keeps
    its bytes. What only you can mend is named.

    Example: vse complete
    """
    text, lines = completed(params, reference, MOVED, NAMED)
    if lines:
        write_text(params, text)
    click.echo("\n".join(lines) or f"{params} has every key of {reference}")
    problems = list(find_problems(read_yaml(params)))
    if problems:
        raise WorkbenchError(f"{params} is not valid yet:\n  " + "\n  ".join(problems), UNDO)
