"""Judge the papers' claims by the runs that were kept."""

from pathlib import Path

import click

from pipeline.evaluation.comparison import aligned
from pipeline.runtime.files import write_text
from stages.common import command
from vse_workbench.claims.judgement import judge_claims
from vse_workbench.claims.page import claims_page, renewed_readme, rows_of, summary_sentence
from vse_workbench.claims.results import read_claims

GROUP = "compare"
PAGE = Path("docs/claims.md")
CHART = Path("docs/claims.svg")
README = Path("README.md")


@command
@click.argument("names", metavar="[CLAIM]...", nargs=-1)
def main(names: tuple[str, ...]) -> None:
    """Differences over seeds, 95 % intervals and verdicts; nothing is run.

    All claims are printed and written to docs/claims.md, with a picture beside it and a line in
    README.md; CLAIMs that are named are printed alone.

    Example: vse claims judge
    """
    ledger, kept, named = read_claims(names)
    cells = judge_claims(ledger, kept)
    shown = [cell for cell in cells if cell.name in named]
    click.echo("\n".join(aligned(rows_of(ledger, shown))))
    for cell in shown:
        for note in cell.notes:
            click.echo(f"{cell.name} on {cell.dataset}: {note}")
    if not names:
        drawn = [cell for cell in cells if cell.found]
        CHART.unlink(missing_ok=True)
        if drawn:
            from vse_workbench.claims.picture import draw_claims  # loads matplotlib

            draw_claims(CHART, ledger, drawn)
        write_text(PAGE, claims_page(ledger, cells, kept, CHART.name if drawn else ""))
        write_text(README, renewed_readme(README.read_text(encoding="utf-8"), ledger, cells))
    click.echo(summary_sentence(ledger, shown))
