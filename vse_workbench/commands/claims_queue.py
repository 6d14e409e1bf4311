"""Print the commands that run what claims lack."""

from pathlib import Path

import click

from pipeline.runtime.yaml_text import read_yaml
from stages.common import command
from stages.params import default_values
from vse_workbench.claims.commands import commands
from vse_workbench.claims.ledger import chosen, read_ledger
from vse_workbench.claims.results import read_rows

GROUP = "compare"


@command
@click.argument("names", metavar="[CLAIM]...", nargs=-1)
@click.option("--seeds", type=click.IntRange(2, 10_000), default=5, help="How many of a setting.")
@click.option("--claims", type=click.Path(path_type=Path), default=Path("claims.yaml"))
@click.option("--kept", type=click.Path(path_type=Path), default=Path("docs/claims.tsv"))
@click.option("--params", type=click.Path(path_type=Path), default=Path("params.yaml"))
@click.option("--recipes", type=click.Path(path_type=Path), default=Path("recipes"))
def main(
    names: tuple[str, ...], seeds: int, claims: Path, kept: Path, params: Path, recipes: Path
) -> None:
    """A line for the shell for every setting of the CLAIMs, or of all, that lacks seeds.

    Example: vse claims queue --seeds 5 knn_sum | sh && dvc queue start
    """
    ledger, current, defaults = read_ledger(claims), read_yaml(params), default_values()
    wanted = chosen(ledger, names), read_rows(kept), range(seeds)
    lines = commands(ledger, *wanted, current, defaults, recipes)
    if lines:
        click.echo("\n".join(lines))
    else:
        click.echo(f"every setting has {seeds} seeds", err=True)
