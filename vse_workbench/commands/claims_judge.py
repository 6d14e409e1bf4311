"""Judge the papers' claims by the runs that were kept."""

from pathlib import Path

import click

from pipeline.comparison.table import aligned
from pipeline.runtime.files import write_text
from stages.common import command
from vse_workbench.claims.judgement import judge_claims
from vse_workbench.claims.ledger import chosen, read_ledger
from vse_workbench.claims.page import page, renewed, rows_of, sentence
from vse_workbench.claims.picture import draw
from vse_workbench.claims.results import read_kept

GROUP = "compare"


@command
@click.argument("names", metavar="[CLAIM]...", nargs=-1)
@click.option("--claims", type=click.Path(path_type=Path), default=Path("claims.yaml"))
@click.option("--kept", type=click.Path(path_type=Path), default=Path("docs/claims.tsv"))
@click.option("--output", type=click.Path(path_type=Path), default=Path("docs/claims.md"))
@click.option("--readme", type=click.Path(path_type=Path), default=Path("README.md"))
def main(names: tuple[str, ...], claims: Path, kept: Path, output: Path, readme: Path) -> None:
    """Differences over seeds, 95 % intervals and verdicts; nothing is run.

    All claims are printed and written to OUTPUT, with a picture beside it and a line in README;
    CLAIMs that are named are printed alone.

    Example: vse claims judge
    """
    ledger = read_ledger(claims)
    named = chosen(ledger, names)
    found = read_kept(kept)
    cells = judge_claims(ledger, found)
    shown = [made for made in cells if made.name in named]
    click.echo("\n".join(aligned(rows_of(ledger, shown))))
    for made in shown:
        for note in made.notes:
            click.echo(f"{made.name} on {made.dataset}: {note}")
    if not names:
        chart, drawn = output.with_suffix(".svg"), [cell for cell in cells if cell.n]
        chart.unlink(missing_ok=True)
        if drawn:
            draw(chart, ledger, drawn)
        write_text(output, page(ledger, cells, found.rows, chart.name if drawn else ""))
        if readme.exists():
            write_text(readme, renewed(readme.read_text(encoding="utf-8"), ledger, cells))
    click.echo(sentence(ledger, shown))
