"""Fail on a wrong params.yaml within a second, before any other stage deletes its outputs, and list
the code of every stage, so that DVC re-runs a stage when its own code changed. The same for the
files outside that params.yaml names."""

from pathlib import Path
from typing import Any

from pipeline.runtime.code import SOURCES
from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.runtime.named import link_files, named_digests, named_files
from pipeline.runtime.yaml_text import COMPLETE, read_yaml
from stages.code import stage_lists, write_lists
from stages.common import DIGESTS, NAMED, command, paths
from stages.params import load_params, whole_type
from stages.registries import check_registries


@command
@paths("output")
def main(output: Path) -> None:
    """Validate params.yaml and write, for every stage, which files of code it may load."""
    check_registries()
    params = load_params(models=None)
    stages = stage_lists(read_yaml(Path("dvc.yaml")))
    values = read_yaml(Path("params.yaml"))
    check_keys(values, set().union(*stages.values()))
    named = dict(named_files(params))
    link_files(NAMED, named)
    write_lists(
        folder=output,
        memory=SOURCES,
        params=params,
        stages=stages,
        named=named_digests(named, DIGESTS),
        values=values,
    )


def check_keys(values: dict[str, Any], named: set[str]) -> None:
    """Refuse a params.yaml without keys that dvc.yaml names: DVC does not know the defaults, and
    would miss them at the end of a stage.

    Args:
        values: the content of params.yaml.
        named: keys that stages of dvc.yaml depend on: a section, or a section and a key with a dot
            between.

    Raises:
        WorkbenchError: sections or keys are missing; the message names them.
    """
    lost = [key for key in whole_type().model_fields if key not in values]
    for key in sorted(named):
        section, _, name = key.partition(".")
        if section in values and name.isidentifier() and name not in values[section]:
            lost.append(key)
    if lost:
        raise WorkbenchError(f"params.yaml: {listing(lost)} missing", COMPLETE)


if __name__ == "__main__":
    main()
