"""Keep the figures of finished experiments."""

from pathlib import Path
from typing import TextIO

import click

from pipeline.comparison.ablation import read_experiments
from pipeline.runtime.errors import WorkbenchError, counted
from stages.common import command
from stages.params import default_values
from vse_workbench.claims.commands import wanted
from vse_workbench.claims.ledger import leaves, read_ledger, setting_params
from vse_workbench.claims.recorded import read_experiment, recorded
from vse_workbench.claims.results import Row, matching_rows, merged, read_rows, write_rows

GROUP = "compare"


@command
@click.option("--claims", type=click.Path(path_type=Path), default=Path("claims.yaml"))
@click.option("--kept", type=click.Path(path_type=Path), default=Path("docs/claims.tsv"))
@click.option("--recipes", type=click.Path(path_type=Path), default=Path("recipes"))
@click.argument("experiments", type=click.File(), default="-")
def main(claims: Path, kept: Path, recipes: Path, experiments: TextIO) -> None:
    """Add the runs of claims' settings among the EXPERIMENTS that `dvc exp show --csv` lists.

    What is no run of any setting, or not of one piece, is named and left out.

    Example: dvc exp show --csv --hide-queued | vse claims keep
    """
    ledger, defaults = read_ledger(claims), default_values()
    settings = {
        (name, dataset): dict(leaves(setting_params(ledger, name, dataset, defaults, recipes)))
        for name, dataset in wanted(ledger, ledger.claims)
    }
    rows, table = list[Row](), read_experiments(experiments.read())
    for name, revision in zip(table["Experiment"], table["rev"], strict=True):
        experiment, found, reasons = read_experiment(name, revision), list[Row](), list[str]()
        for model in experiment.models():
            try:
                run = recorded(experiment, model)
            except WorkbenchError as error:
                reasons.append(error.message)
                continue
            found += matching_rows(ledger, settings, model, run, experiment.commit)
        rows += found
        said = ", ".join(f"{row.setting} on {row.dataset} seed {row.seed}" for row in found)
        click.echo(f"{name}: {said or 'no setting of claims.yaml'}")
        if not found:
            click.echo("\n".join(f"  {reason}" for reason in reasons))
    old = read_rows(kept)
    write_rows(kept, new := merged(old, rows))
    click.echo(f"{kept}: {counted(len(new), 'run')}, {len(new) - len(old)} of them new")
