"""Compare runs, or settings over seeds: which differences are within noise?"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from string import ascii_uppercase
from typing import Any

import click

from pipeline.evaluation.paired import RESAMPLES, conclusion, paired_differences, table
from pipeline.evaluation.published import published_text, set_beside
from pipeline.evaluation.revisions import LoadedRun, load_runs
from pipeline.evaluation.seeds import differences_over_seeds
from pipeline.evaluation.several import Place, places_conclusion, places_of, places_table
from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.runtime.process import print_json
from stages.common import command, json_option

GROUP = "compare"
CONFIDENCE = 0.95  # of the intervals
SEED = 0  # of the draws of test images
MOST_RUNS = len(ascii_uppercase)  # a letter each
Settings = dict[str, dict[str, LoadedRun]]  # by letter, what each seed of a run reaches


@command
@click.argument("names", nargs=-1, metavar="A B [C]...")
@click.option("--model", help="Model of a revision that is given without one.")
@click.option("--criterion", default="naive", help="Inference criterion.")
@click.option("--criterion-b", help="Criterion of B, when it is another one.")
@click.option("--resamples", type=click.IntRange(100, 1_000_000), default=RESAMPLES)
@json_option
def main(
    names: tuple[str, ...],
    model: str | None,
    criterion: str,
    criterion_b: str | None,
    resamples: int,
    as_json: bool,
) -> None:
    """Compare runs by a paired bootstrap over their test images.

    A and B are each a rank file (.h5), a metrics file (.json), or REVISION:MODEL, such as HEAD:vse
    or an experiment's name. Intervals are of B - A; they say nothing about other training seeds,
    unless A and B are runs of the same seeds: with commas between them, or folders of rank files.
    Of more than two, the command says which cannot be told from the best. Published figures in
    params.yaml stand beside the runs' own.

    Example: vse compare metrics/vse.json metrics/two_branch.json
    """
    if not 2 <= len(names) <= MOST_RUNS:
        found = f"{len(names)}: {' '.join(names)}" if names else "none"
        raise WorkbenchError(f"runs are given: {found}", f"name from 2 to {MOST_RUNS} of them")
    if criterion_b and len(names) > 2:
        raise WorkbenchError(f"--criterion-b with {len(names)} runs: B is one of two alone")
    criteria = [criterion] * len(names)
    criteria[1] = criterion_b or criterion
    runs = {
        letter: load_runs(name, model, own)
        for letter, name, own in zip(ascii_uppercase, names, criteria, strict=False)
    }
    check_same_seeds(runs)
    if len(names) == 2:
        content, lines = two_runs(runs, names, criteria, resamples)
    else:
        content, lines = several_runs(runs, names, criteria, resamples)
    if as_json:
        print_json(content)
        return
    for letter, name, own in zip(runs, names, criteria, strict=True):
        click.echo(f"{letter}: {name}, {own}")
    ranks = next(iter(runs["A"].values())).ranks
    click.echo(
        f"{len(ranks.i2t.ids):,} images, {len(ranks.t2i.ids):,} captions, protocol "
        f"{ranks.protocol}, {resamples:,} resamples\n"
    )
    if len(runs["A"]) > 1:
        click.echo(f"Means of {listing(runs['A'], 20)}; s: deviation over seeds, q: over images\n")
    click.echo("\n".join([*lines, *published_lines(runs)]))


def check_same_seeds(runs: Settings) -> None:
    """Refuse settings that have runs of different seeds: WorkbenchError names two of them."""
    first = runs["A"]
    for letter, own in runs.items():
        several = len(first) + len(own) > 2
        if several and list(own) != list(first):
            raise WorkbenchError(
                f"A has {listing(first, 20)}, {letter} has {listing(own, 20)}",
                "name the same seeds of both, or files of the same names",
            )


def two_runs(
    runs: Settings, names: Sequence[str], criteria: Sequence[str], resamples: int
) -> tuple[dict[str, Any], list[str]]:
    """Every figure of two runs with the interval of its difference.

    Args:
        runs: A and B.
        names: as they were given.
        criteria: of A and of B.
        resamples: bootstrap draws.

    Returns:
        What --json prints, and lines for a terminal.
    """
    first, second = ([run.ranks for run in own.values()] for own in runs.values())
    if len(first) > 1:
        differences = differences_over_seeds(first, second, resamples, CONFIDENCE, SEED)
    else:
        differences = paired_differences(first[0], second[0], resamples, CONFIDENCE, SEED)
    text = conclusion(differences)
    kept = ("figure", "a", "b", "low", "high", "s", "q")
    figures = [
        {key: asdict(figure)[key] for key in kept} | {"better": figure.better or None}
        for figure in differences
    ]
    about = {"a": names[0], "b": names[1], "criteria": criteria, "protocol": first[0].protocol}
    content = about | {"confidence": CONFIDENCE, "figures": figures, "conclusion": text}
    return content, [*table(differences, CONFIDENCE), "", text]


def several_runs(
    runs: Settings, names: Sequence[str], criteria: Sequence[str], resamples: int
) -> tuple[dict[str, Any], list[str]]:
    """More than two runs by falling rsum, and which cannot be told from the first.

    Args:
        runs: by letter.
        names: as they were given.
        criteria: of each.
        resamples: bootstrap draws, at least.

    Returns:
        What --json prints, and lines for a terminal.
    """
    ranks = {letter: [run.ranks for run in own.values()] for letter, own in runs.items()}
    places = places_of(ranks, resamples, CONFIDENCE, SEED)
    text = places_conclusion(places, CONFIDENCE)
    given = dict(zip(runs, names, strict=True))
    content = {
        "runs": [_place_values(place, given[place.name]) for place in places],
        "criteria": criteria,
        "protocol": ranks["A"][0].protocol,
        "confidence": CONFIDENCE,
        "conclusion": text,
    }
    return content, [*places_table(places), "", text]


def _place_values(place: Place, name: str) -> dict[str, Any]:
    behind = place.behind
    values = None
    if behind is not None:
        kept = ("low", "high", "s", "q", "p", "tied")
        values = {"rsum": behind.b - behind.a} | {key: asdict(behind)[key] for key in kept}
    return {"run": place.name, "name": name, "figures": place.figures, "behind_first": values}


def published_lines(runs: Mapping[str, Mapping[str, LoadedRun]]) -> list[str]:
    """What papers report, beside the runs of one seed; none where params.yaml has no such rows.

    Args:
        runs: by letter and seed.

    Returns:
        Lines for a terminal.
    """
    lines = []
    for letter, own in runs.items():
        if len(own) > 1:
            continue  # the table of a paper is of one run, and so is an interval
        run = next(iter(own.values()))
        measured = run.measured
        rows = [
            row
            for row in run.published
            if (row.model, row.criterion) == (measured.model, run.criterion)
        ]
        if rows:
            lines += ["", f"{letter}, published figures:", ""]
            lines += published_text(set_beside(rows, [measured]))
    return lines
