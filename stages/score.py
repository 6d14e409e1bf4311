"""Score every image of the validation and test splits against every caption."""

from dataclasses import replace
from pathlib import Path

import click

from models.base import Model
from models.registry import load_for_results
from pipeline.corpus.tables import captions_digest, images_digest, load_captions, load_images
from pipeline.evaluation.correlation import correlate, sample_rows
from pipeline.evaluation.score_file import SplitScores, write_scores
from pipeline.features.checkpoint import read_checkpoint
from pipeline.features.data import Inputs
from pipeline.features.feature_file import FeatureFile
from pipeline.features.origin import check_origins
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.process import say
from pipeline.runtime.repeatable import setup_runtime, warn_of_gpu_memory
from stages.common import command, model_and_inputs, paths, sizes_line
from stages.params import load_params

SCORED = ("val", "test")
CORRELATED = 100  # images, as in the figure
EMBEDDINGS = "embeddings"
KEPT = ("scores", EMBEDDINGS)


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
    kind = load_for_results(name)
    params = load_params(models=[])
    device = setup_runtime(params.runtime)
    inputs = Inputs(**paths)
    trained = read_checkpoint(checkpoint, name)
    model = kind.from_checkpoint(trained, name)
    options = selection(name, model, shortlist=shortlist, cut=cut, keep=keep)
    model.shortlist = options.get("shortlist")
    data = kind.open_data(model.config, inputs)
    trained.require(data.identity)
    model.to(device)
    check_origins(inputs, params.origins())
    splits = {split: model.score_split(model.scored_split(data, split)) for split in SCORED}
    warn_of_gpu_memory()
    if keep != EMBEDDINGS:
        splits = {split: replace(s, scores=s.matrix) for split, s in splits.items()}
    begun = {"begins_as": model.BEGINS_AS} if model.BEGINS_AS else {}
    described: dict[str, str | int | float] = {
        "model": name,
        **begun,
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
    name: str, model: Model, shortlist: int | None, cut: bool, keep: str | None
) -> dict[str, int]:
    """The shortlist where the weights use one.

    Args:
        name: Of the model.
        model: With its weights.
        shortlist: Images per caption, an option of the command.
        cut: Whether the shortlist holds without recurrence, too.
        keep: What is written, an option of the command.

    Returns:
        The entry `shortlist` for the score file, images per caption; nothing where all pairs are
        scored.

    Raises:
        WorkbenchError: The model does not take one of these options, or needs one.
    """
    if keep is not None and not model.VECTORS:
        raise WorkbenchError(f"model {name!r} does not take the option --keep", "see dvc.yaml")
    if (shortlist is not None) != model.SHORTLISTS:
        verb = "needs" if model.SHORTLISTS else "does not take"
        raise WorkbenchError(f"model {name!r} {verb} the option --shortlist", "see dvc.yaml")
    if shortlist and (cut or model.uses_shortlist()):
        return {"shortlist": shortlist}
    return {}


def likeness(features: Path, split: SplitScores) -> dict[str, float]:
    """How alike images are to the model before and after it embeds them (Zheng et al. 2020,
    figure 5).

    Args:
        features: the file of the images' features, or of their regions.
        split: whose images are embedded; CORRELATED of them are drawn, always the same.

    Returns:
        The mean |r| over their pairs in percent: `feature_correlation` before, `correlation` after.
        Nothing for regions, for a model without embeddings, and where a vector is constant.
    """
    file = FeatureFile(features)
    if split.image_embeddings is None or len(file.shape()) != 2:
        return {}
    file.verify("features")  # a dual path that starts from pixels reads them nowhere else
    rows = sample_rows(len(split.image_ids), CORRELATED, 0)
    ids = [split.image_ids[row] for row in rows]
    before = file.read(file.rows(ids))
    after = split.image_embeddings[rows]
    vectors = {"feature_correlation": before, "correlation": after}
    try:
        return {
            name: 100 * correlate(matrix, ids).summary()["mean_absolute"]
            for name, matrix in vectors.items()
        }
    except WorkbenchError:
        return {}


if __name__ == "__main__":
    main()
