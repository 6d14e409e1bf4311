"""Digests of another program's files, which dvc.yaml cannot name."""

from pathlib import Path

import click

from pipeline.runtime.files import write_json
from pipeline.scores.external_files import digests_of
from stages.common import command, named, target
from stages.params import load_params


@command
@click.argument("name", metavar="EXTERNAL")
@click.option("--output", type=target, required=True, help="Digests to write (JSON).")
def main(name: str, output: Path) -> None:
    """Digest the files that params.yaml names, and the lists of ids beside them."""
    params = load_params()
    write_json(output, digests_of(named("external", params.external, name)))


if __name__ == "__main__":
    main()
