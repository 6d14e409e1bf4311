"""Score every image of the validation and test splits against every caption."""

from dataclasses import replace
from pathlib import Path

import click

from models.base.registry import model_function, offered
from pipeline.corpus.tables import captions_digest, images_digest, load_captions, load_images
from pipeline.evaluation.correlation import correlate, sample_rows
from pipeline.evaluation.score_file import SplitScores, write_scores
from pipeline.inputs.files import Inputs
from pipeline.inputs.origin import check_origins
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.process import say
from pipeline.runtime.repeatable import settle
from pipeline.storage.checkpoint import Checkpoint, read_checkpoint
from pipeline.storage.features import FeatureFile
from stages.common import command, model_and_inputs, paths, sizes_line
from stages.params import load_params

SCORED = ("val", "test")
CORRELATED = 100  # images, as in the figure
KEPT = ("scores", EMBEDDINGS := "embeddings")


@command
@model_and_inputs
@paths("checkpoint", "output")
@click.option("--shortlist", type=click.IntRange(min=1), help="For dp_rnn: images per caption.")
@click.option("--cut", is_flag=True, help="For dp_rnn: the shortlist, without recurrence too.")
@click.option("--keep", type=click.Choice(KEPT), help="For models of vectors: what is written.")
def main(
    name: str,
    checkpoint: Path,
    output: Path,
    shortlist: int | None,
    cut: bool,
    keep: str | None,
    **paths: Path,
) -> None:
    """Score both splits with MODEL; its sizes come from the checkpoint, not from params.yaml."""
    params, scorer = load_params(), model_function(name, "scorer")
    device = settle(params.runtime)
    trained = read_checkpoint(checkpoint, name)
    options = selection(name, trained, shortlist, cut, keep)
    inputs = Inputs(**paths)
    score = scorer(trained, inputs, device, **options)
    check_origins(inputs, params.origins())
    splits = {split: score(split) for split in SCORED}
    if keep != EMBEDDINGS:
        splits = {split: replace(s, scores=s.matrix) for split, s in splits.items()}
    described: dict[str, str | int | float] = {
        "model": name,
        "checkpoint_sha256": trained.sha256,
        "images_sha256": images_digest(load_images(paths["images"])),
        "captions_sha256": captions_digest(load_captions(paths["captions"])),
        **options,
        **likeness(paths["features"], splits["test"]),
    }
    write_scores(output, splits, described)
    sizes = {split: (len(s.image_ids), len(s.caption_ids)) for split, s in splits.items()}
    say(f"{name}: scored {sizes_line(sizes)}")


def selection(
    name: str, trained: Checkpoint, shortlist: int | None, cut: bool, keep: str | None
) -> dict[str, int]:
    """The shortlist where these weights use one; WorkbenchError for options that do not fit."""
    if keep is not None and offered(name, "model", "score_vectors") is None:
        raise WorkbenchError(f"model {name!r} does not take the option --keep", "see dvc.yaml")
    uses_shortlist = offered(name, "model", "uses_shortlist")
    if (uses_shortlist is None) != (shortlist is None):
        verb = "needs" if uses_shortlist else "does not take"
        raise WorkbenchError(f"model {name!r} {verb} the option --shortlist", "see dvc.yaml")
    if shortlist and uses_shortlist and (cut or uses_shortlist(trained)):
        return {"shortlist": shortlist}
    return {}


def likeness(features: Path, split: SplitScores) -> dict[str, float]:
    """How alike images are to the model before and after it embeds them: mean |r| of some, in
    percent (Zheng et al. 2020, figure 5). Nothing for regions, and where a vector is constant."""
    file = FeatureFile(features)
    if split.image_embeddings is None or len(file.shape()) != 2:
        return {}
    file.verify("features")  # a dual path that starts from pixels reads them nowhere else
    rows = sample_rows(len(split.image_ids), CORRELATED, 0)
    ids = [split.image_ids[row] for row in rows]
    before, after = file.read(file.rows(ids)), split.image_embeddings[rows]
    vectors = {"feature_correlation": before, "correlation": after}
    try:
        return {n: 100 * correlate(v, ids).summary()["mean_absolute"] for n, v in vectors.items()}
    except WorkbenchError:
        return {}


if __name__ == "__main__":
    main()
