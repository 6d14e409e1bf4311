"""Print a table of finished experiments by setting: `dvc exp show --csv | ...`."""

import click

from pipeline.ablation import read_experiments, tabulate
from pipeline.comparison import aligned
from stages.common import command


@command
@click.option("--model", required=True, help="Whose metrics, such as vse.")
@click.option("--criterion", default="naive", show_default=True, help="Inference criterion.")
@click.option("--by", multiple=True, required=True, help="Parameter that tells settings apart.")
@click.argument("experiments", type=click.File(), default="-")
def main(model: str, criterion: str, by: tuple[str, ...], experiments: click.File) -> None:
    """Mean and deviation over seeds of the EXPERIMENTS that `dvc exp show --csv` lists."""
    text = experiments.read()  # type: ignore[attr-defined] # click hands over the opened file
    rows = tabulate(read_experiments(text), model, criterion, by)
    click.echo("\n".join(aligned(rows)))


if __name__ == "__main__":
    main()
