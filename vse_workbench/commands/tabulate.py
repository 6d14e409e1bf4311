"""Print a table of finished experiments by setting."""

from typing import TextIO

import click

from pipeline.evaluation.ablation import read_experiments, tabulate
from pipeline.evaluation.comparison import aligned
from stages.common import command

GROUP = "compare"


@command
@click.option("--model", required=True, help="Whose metrics, such as vse.")
@click.option("--criterion", "criteria", multiple=True, default=["naive"], help="A row for each.")
@click.option("--by", multiple=True, required=True, help="Parameter that tells settings apart.")
@click.argument("experiments", type=click.File(), default="-")
def main(model: str, criteria: tuple[str, ...], by: tuple[str, ...], experiments: TextIO) -> None:
    """Mean and deviation over seeds of the EXPERIMENTS that `dvc exp show --csv` lists.

    Example: dvc exp show --csv --hide-queued | vse tabulate --model vse --by loss
    """
    rows = tabulate(read_experiments(experiments.read()), model, criteria, by)
    click.echo("\n".join(aligned(rows)))
