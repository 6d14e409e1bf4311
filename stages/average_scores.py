"""Average the score files of several models: an ensemble, evaluated and compared like a model."""

from pathlib import Path

import click

from pipeline.evaluation.combination import write_average
from pipeline.evaluation.score_file import check_name
from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.runtime.graph import stage_items, stages_of_models
from pipeline.runtime.process import say
from stages.common import command, paths, sizes_line
from stages.params import load_params


@command
@click.argument("name", metavar="AVERAGE")
@paths("output")
def main(name: str, output: Path) -> None:
    """Average the members that params.yaml names; their score files lie beside the output."""
    params = load_params()
    averages = params.average_scores
    settings = averages[name]
    members = {member: output.parent / f"{member}.h5" for member in settings.members}
    lost = [str(path) for path in members.values() if not path.is_file()]
    if lost:
        raise WorkbenchError(
            f"average {name!r}: no file {listing(lost)}",
            "a member is a model, another average, or a score file that you keep there",
        )
    models = (name for stage in stages_of_models("score") for name in stage_items(stage))
    of_graph = {*averages, *models}
    for member, path in members.items():
        if member in of_graph:  # files that a user kept have any name
            check_name(path)
    sizes = write_average(
        output=output,
        members=members,
        weights=settings.weights,
        normalise=settings.normalise == "z",
    )
    say(f"{name}: averaged {', '.join(members)}, {sizes_line(sizes)}")


if __name__ == "__main__":
    main()
