"""Print the metrics of any run in TREC format."""

from pathlib import Path

import click

from pipeline.runtime.process import print_json
from stages.common import command, existing, json_option
from vse_workbench.trec.judge import TITLES, judged
from vse_workbench.trec.read import read_qrels, read_run

GROUP = "compare"


@command
@click.argument("run", type=existing)
@click.argument("qrels", type=existing)
@json_option
def main(run: Path, qrels: Path, as_json: bool) -> None:
    """Print R@K, mAP@R, R-precision, mAP and nDCG of RUN by QRELS, both in TREC format.

    Example: vse judge runs/vse.t2i.run runs/test.t2i.qrels
    """
    figures = judged(read_run(run), read_qrels(qrels))
    if as_json:
        print_json(figures)
        return
    for name, title in TITLES.items():
        click.echo(f"{title:6} {figures[name]:8.4f}")
    click.echo(f"{figures['queries']:,} queries, {figures['unanswered']:,} not answered")
