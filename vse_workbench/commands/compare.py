"""Compare two runs, or two settings over seeds: which differences are within noise?"""

from dataclasses import asdict

import click

from pipeline.evaluation.paired import RESAMPLES, conclusion, paired_differences, table
from pipeline.evaluation.revisions import load_runs
from pipeline.evaluation.seeds import differences_over_seeds
from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.runtime.process import print_json
from stages.common import command, json_option

GROUP = "compare"
CONFIDENCE = 0.95  # of the intervals
SEED = 0  # of the draws of test images


@command
@click.argument("a")
@click.argument("b")
@click.option("--model", help="Model of a revision that is given without one.")
@click.option("--criterion", default="naive", help="Inference criterion.")
@click.option("--criterion-b", help="Criterion of B, when it is another one.")
@click.option("--resamples", type=click.IntRange(100, 1_000_000), default=RESAMPLES)
@json_option
def main(
    a: str,
    b: str,
    model: str | None,
    criterion: str,
    criterion_b: str | None,
    resamples: int,
    as_json: bool,
) -> None:
    """Compare two runs by a paired bootstrap over their test images.

    A and B are each a rank file (.h5), a metrics file (.json), or REVISION:MODEL, such as HEAD:vse
    or an experiment's name. Intervals are of B - A; they say nothing about other training seeds,
    unless A and B are runs of the same seeds: with commas between them, or folders of rank files.

    Example: vse compare metrics/vse.json metrics/two_branch.json
    """
    criteria = criterion, criterion_b or criterion
    runs_a = load_runs(a, model, criteria[0])
    runs_b = load_runs(b, model, criteria[1])
    first = [*runs_a.values()]
    second = [*runs_b.values()]
    several = len(first) + len(second) > 2
    if several and list(runs_a) != list(runs_b):
        raise WorkbenchError(
            f"A has {listing(runs_a, 20)}, B has {listing(runs_b, 20)}",
            "name the same seeds of both, or files of the same names",
        )
    if several:
        differences = differences_over_seeds(first, second, resamples, CONFIDENCE, SEED)
    else:
        differences = paired_differences(first[0], second[0], resamples, CONFIDENCE, SEED)
    text = conclusion(differences)
    if as_json:
        figures = [asdict(figure) | {"better": figure.better or None} for figure in differences]
        runs = {"a": a, "b": b, "criteria": criteria, "protocol": first[0].protocol}
        print_json(runs | {"confidence": CONFIDENCE, "figures": figures, "conclusion": text})
        return
    click.echo(f"A: {a}, {criteria[0]}\nB: {b}, {criteria[1]}")
    click.echo(
        f"{len(first[0].i2t.ids):,} images, {len(first[0].t2i.ids):,} captions, protocol "
        f"{first[0].protocol}, {resamples:,} resamples\n"
    )
    if several:
        click.echo(f"Means of {listing(runs_a, 20)}; s: deviation over seeds, q: over images\n")
    click.echo("\n".join([*table(differences, CONFIDENCE), "", text]))
