"""Look into a trained model: tables and pictures."""

from pathlib import Path

import click

from pipeline.corpus.tables import load_captions
from pipeline.evaluation.revisions import load_scores
from pipeline.features.groups import GroupFile
from pipeline.runtime.errors import OUT_OF_STEP, WorkbenchError
from pipeline.runtime.graph import SCORING, stage_of, stage_paths, stages_of_models
from pipeline.runtime.process import say
from pipeline.runtime.repeatable import pick_device
from stages.common import command, model_name, to_folder
from stages.params import load_for_queries
from vse_workbench.analysis import artefacts, subjects
from vse_workbench.analysis.discriminative import word_drops

GROUP = "look"

ANALYSES = ("separation", "correlations", "words", "curve")
IMAGES = 100  # drawn to correlate
CAPTIONS = 1000  # drawn to leave words out
MORE = "More runs: score files, or REVISION:MODEL."


@command
@model_name
@click.option("--output", type=to_folder, required=True, help="Folder to write to.")
@click.option("--with", "others", multiple=True, metavar="LABEL=RUN", help=MORE)
@click.option("--only", multiple=True, type=click.Choice(ANALYSES), help="Instead of all analyses.")
@click.option("--split", default="test", help="Split to look at.")
def main(
    name: str, output: Path, others: tuple[str, ...], only: tuple[str, ...], split: str
) -> None:
    """Analyse MODEL: what its scores separate, how alike it sees images, which words matter.

    Example: vse analyse vse --output analysis/vse
    """
    wanted = only or ANALYSES
    params = load_for_queries()
    stage = stage_of(name, SCORING)
    if stage not in stages_of_models("score") and set(wanted) != {"separation"}:
        kind = {"average_scores": "an average"}.get(stage, "another program's")
        raise WorkbenchError(f"{name} is {kind}: scores alone", "choose: --only separation")
    path = stage_paths(stage, ("output",), name)["output"]
    runs = {name: str(path)} | runs_by_label(others, name)
    scores = {key: load_scores(run, split) for key, run in runs.items()}
    if "words" in wanted:  # first: it refuses a model without words, and nothing is written
        from vse_workbench.search.embedder import text_embedder  # loads networks

        embedder = text_embedder(name, pick_device(params.runtime.device))
        table = load_captions(stage_paths(stage, ("captions",), name)["captions"])
        if GroupFile(path).attributes.get("checkpoint_sha256") != embedder.sha256:
            raise WorkbenchError(
                f"{path}: not made with the weights of the checkpoint", OUT_OF_STEP
            )
        texts, vectors = subjects.drawn_captions(scores[name], table, CAPTIONS, params.seed)
        say(artefacts.write_words(output, word_drops(embedder, texts, vectors), texts))
    if "separation" in wanted:
        say(artefacts.write_separation(output, scores))
    if "correlations" in wanted:
        features = stage_paths(stage, ("features",), name)["features"]
        by_label, ids = subjects.compute_correlations(scores, features, IMAGES, params.seed)
        say(artefacts.write_correlations(output, by_label, ids))
    if "curve" in wanted:
        training = stage_of(name, stages_of_models("train"))
        say(artefacts.write_curve(output, stage_paths(training, ("curve",), name)["curve"], name))
    say(f"{name}: {', '.join(wanted)} in {output}")


def runs_by_label(options: tuple[str, ...], own: str) -> dict[str, str]:
    """LABEL=RUN options as a mapping.

    Args:
        options: as given.
        own: the model's own label, which no other run has.

    Returns:
        Runs by label.

    Raises:
        WorkbenchError: another form, or a label used twice.
    """
    runs: dict[str, str] = {}
    for option in options:
        label, _, run = option.partition("=")
        if not (label.strip() and run) or label in (own, subjects.FEATURES, *runs):
            raise WorkbenchError(
                f"--with {option}: expected LABEL=RUN, every label once",
                "for example: --with before=scores/before.h5, or --with before=HEAD:vse",
            )
        runs[label] = run
    return runs
