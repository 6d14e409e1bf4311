"""Fail on a wrong params.yaml within a second, before any other stage deletes its outputs, and list
the code of every stage, so that DVC re-runs a stage when its own code changed."""

from pathlib import Path

from stages.code import write_lists
from stages.common import SOURCES, command, paths
from stages.params import load_params
from stages.registries import check_registries


@command
@paths("output")
def main(output: Path) -> None:
    """Validate params.yaml and write, for every stage, which files of code it may load."""
    check_registries()
    write_lists(output, SOURCES, load_params())


if __name__ == "__main__":
    main()
