"""Look into a trained model: tables and pictures."""

from pathlib import Path

import click

from pipeline.comparison.revisions import load_scores
from pipeline.corpus.tables import load_captions
from pipeline.runtime.errors import OUT_OF_STEP, WorkbenchError
from pipeline.runtime.graph import SCORING, stage_of, stage_paths
from pipeline.runtime.process import say
from pipeline.runtime.repeatable import pick_device, set_threads
from pipeline.storage.groups import GroupFile
from stages.common import command, model_name, to_folder
from stages.params import load_params
from vse_workbench.analysis import artefacts, subjects
from vse_workbench.analysis.discriminative import word_drops

GROUP = "look"

ANALYSES = ("separation", "correlations", "words", "curve")
MORE = "More runs: score files, or REVISION:MODEL."


@command
@model_name
@click.option("--output", type=to_folder, required=True, help="Folder to write to.")
@click.option("--with", "others", multiple=True, metavar="LABEL=RUN", help=MORE)
@click.option("--only", multiple=True, type=click.Choice(ANALYSES), help="Instead of all analyses.")
@click.option("--split", default="test", help="Split to look at.")
@click.option("--images", default=100, type=click.IntRange(2, 1000), help="Images to correlate.")
@click.option(
    "--captions", default=1000, type=click.IntRange(1), help="Captions to leave words out."
)
def main(
    name: str,
    output: Path,
    others: tuple[str, ...],
    only: tuple[str, ...],
    split: str,
    images: int,
    captions: int,
) -> None:
    """Analyse MODEL: what its scores separate, how alike it sees images, which words matter.

    Example: vse analyse vse --output analysis/vse
    """
    wanted, params = only or ANALYSES, load_params()
    set_threads(params.runtime.threads)
    stage = stage_of(name, SCORING)
    if stage != "score" and set(wanted) != {"separation"}:
        kind = {"average_scores": "an average"}.get(stage, "another program's")
        raise WorkbenchError(f"{name} is {kind}: scores alone", "choose: --only separation")
    path = stage_paths(stage, ("output",), name)["output"]
    runs = {name: str(path)} | labelled(others, name)
    scores = {key: load_scores(run, split) for key, run in runs.items()}
    if "separation" in wanted:
        say(artefacts.write_separation(output, scores))
    if "correlations" in wanted:
        features = stage_paths("score", ("features",), name)["features"]
        found, ids = subjects.correlations(scores, features, images, params.seed)
        say(artefacts.write_correlations(output, found, ids))
    if "words" in wanted:
        from models.base.queries import caption_embedder  # loads networks

        embedder, digest = caption_embedder(name, pick_device(params.runtime.device))
        table = load_captions(stage_paths("score", ("captions",), name)["captions"])
        if GroupFile(path).attributes.get("checkpoint_sha256") != digest:
            raise WorkbenchError(
                f"{path}: not made with the weights of the checkpoint", OUT_OF_STEP
            )
        texts, vectors = subjects.described(scores[name], table, captions, params.seed)
        say(artefacts.write_words(output, word_drops(embedder, texts, vectors), texts))
    if "curve" in wanted:
        say(artefacts.write_curve(output, stage_paths("train", ("curve",), name)["curve"], name))
    say(f"{name}: {', '.join(wanted)} in {output}")


def labelled(options: tuple[str, ...], own: str) -> dict[str, str]:
    """LABEL=RUN options as a mapping; WorkbenchError for another form or a label used twice."""
    pairs = [option.partition("=")[::2] for option in options]
    faulty = [f"{key}={run}" for key, run in pairs if not key.strip() or not run]
    labels = [own, subjects.FEATURES, *(key for key, _ in pairs)]
    twice = sorted({key for key in labels if labels.count(key) > 1})
    if faulty or twice:
        raise WorkbenchError(
            f"--with {(faulty or twice)[0]}: expected LABEL=RUN, every label once",
            "for example: --with before=scores/before.h5, or --with before=HEAD:vse",
        )
    return dict(pairs)
