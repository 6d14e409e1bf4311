"""One table of all models."""

from pathlib import Path

import click

from pipeline.comparison import read_results, report
from pipeline.files import write_text
from pipeline.params import load_params
from pipeline.runtime import say
from stages.common import command, existing, target


@command
@click.option("--metrics", type=existing, multiple=True, required=True, help="Metrics file (JSON).")
@click.option("--ranks", type=existing, multiple=True, required=True, help="Rank file (HDF5).")
@click.option("--output", type=target, required=True, help="Table to write (markdown).")
def main(metrics: tuple[Path, ...], ranks: tuple[Path, ...], output: Path) -> None:
    """Compare the models of metrics files, each with the rank file of the same name."""
    params = load_params()
    results = read_results(metrics, ranks)
    write_text(output, report(results, params.dataset, params.loss))
    say(f"compared {', '.join(path.stem for path in metrics)}: see {output}")


if __name__ == "__main__":
    main()
