"""Judge the papers' claims by the runs that were kept."""

from pathlib import Path

import click

from pipeline.comparison.table import aligned
from pipeline.runtime.errors import listing
from pipeline.runtime.files import write_text
from stages.common import command
from vse_workbench.claims.judgement import judge_claim
from vse_workbench.claims.ledger import chosen, claim_datasets, read_ledger
from vse_workbench.claims.page import counts, page, rows_of
from vse_workbench.claims.results import read_rows

GROUP = "compare"


@command
@click.argument("names", metavar="[CLAIM]...", nargs=-1)
@click.option("--claims", type=click.Path(path_type=Path), default=Path("claims.yaml"))
@click.option("--kept", type=click.Path(path_type=Path), default=Path("docs/claims.tsv"))
@click.option("--output", type=click.Path(path_type=Path), default=Path("docs/claims.md"))
def main(names: tuple[str, ...], claims: Path, kept: Path, output: Path) -> None:
    """Differences over seeds, 95 % intervals and verdicts; nothing is run.

    All claims are printed and written to OUTPUT; CLAIMs that are named are printed alone.

    Example: vse claims judge
    """
    ledger, rows = read_ledger(claims), read_rows(kept)
    judgements = [
        judge_claim(ledger, name, claim, dataset, rows)
        for name, claim in chosen(ledger, names).items()
        for dataset in claim_datasets(ledger, claim)
    ]
    click.echo("\n".join(aligned(rows_of(judgements))))
    for made in judgements:
        for problem in made.problems:
            click.echo(f"{made.name} on {made.dataset}: {problem}")
    if not names:
        write_text(output, page(ledger, judgements))
    click.echo(listing(counts(judgements)))
