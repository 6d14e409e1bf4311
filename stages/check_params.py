"""Fail on a wrong params.yaml within a second, before any other stage deletes its outputs, and list
the code of every stage, so that DVC re-runs a stage when its own code changed."""

from pathlib import Path

import click

from pipeline.runtime.code import MEMORY
from stages.code import write_lists
from stages.common import command, target
from stages.params import load_params
from stages.registries import check_registries


@command
@click.option("--output", type=target, required=True, help="Folder of the lists of code.")
def main(output: Path) -> None:
    """Validate params.yaml and write, for every stage, which files of code it may load."""
    check_registries()
    write_lists(output, MEMORY, load_params())


if __name__ == "__main__":
    main()
