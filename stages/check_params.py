"""Fail on a wrong params.yaml within a second, before any other stage deletes its outputs."""

from pathlib import Path

import click

from pipeline.runtime.files import write_text
from stages.common import command, target
from stages.params import load_params
from stages.registries import check_registries


@command
@click.option("--output", type=target, required=True, help="Marker file for the other stages.")
def main(output: Path) -> None:
    """Validate params.yaml and write a marker that is always the same bytes."""
    check_registries()
    load_params()
    # Constant content: a change of params.yaml re-runs this stage but invalidates no other.
    write_text(output, "params.yaml is valid\n")


if __name__ == "__main__":
    main()
