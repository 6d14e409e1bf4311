"""Evaluate scores or embeddings of another program."""

from pathlib import Path
from tempfile import TemporaryDirectory

import click

from pipeline.corpus.tables import load_captions, load_images
from pipeline.evaluation.comparison import described, read_results
from pipeline.evaluation.criteria import CRITERIA
from pipeline.evaluation.external import Pairs, Similarity, write_external
from pipeline.evaluation.params import ALLOWED_NAME, FILE_NAME
from pipeline.evaluation.score_file import read_scores
from pipeline.features.groups import GroupFile
from pipeline.features.matching.clip_retrieval import has_both
from pipeline.runtime.errors import WorkbenchError, counted
from pipeline.runtime.graph import SCORING, stage_items, stage_paths
from pipeline.runtime.process import say
from stages.common import command, existing, sizes_line
from stages.evaluate import evaluate_split
from stages.params import load_for_queries

GROUP = "bring in"


@command
@click.argument("files", nargs=-1, required=True, type=existing, metavar="FILE [FILE]")
@click.option("--name", required=True, help="Of the score file, beside those of the models.")
@click.option("--val", type=existing, help="Matrix of scores of the validation split.")
@click.option("--similarity", type=click.Choice(["cosine", "dot"]), help="Of embeddings: cosine.")
@click.option("--criterion", "criteria", multiple=True, type=click.Choice(list(CRITERIA)))
def main(
    files: tuple[Path, ...],
    name: str,
    val: Path | None,
    similarity: Similarity | None,
    criteria: tuple[str, ...],
) -> None:
    """Bring in a matrix of scores (one FILE, images by captions), or embeddings of images and of
    captions (two, or clip-retrieval's folder). Formats and ids: docs/own_scores.md.

    Example: vse import scores IMAGES.npy CAPTIONS.npy --name my_clip
    """
    params = load_for_queries()
    taken = {item for stage in SCORING for item in stage_items(stage)}
    if not FILE_NAME.fullmatch(name) or name in taken:
        text = f"a stage of dvc.yaml writes {name}.h5" if name in taken else ALLOWED_NAME
        raise WorkbenchError(f"--name {name!r}: {text}", "choose another name")
    matrices = paths_by_key(files, val, similarity)
    paths = stage_paths("compare", ("images", "captions"))
    corpus = Pairs(load_images(paths["images"]), load_captions(paths["captions"]))
    model = next(iter(stage_items("score")), None)
    output = stage_paths("score", ("output",), model)["output"].with_name(f"{name}.h5")
    sizes = write_external(output, matrices, similarity or "cosine", corpus)
    say(f"{output}: {sizes_line(sizes)}")
    ranked = params.inference.model_copy(update={"criteria": list(criteria) or ["naive"]})
    chosen = params.model_copy(update={"inference": ranked})
    with TemporaryDirectory() as folder:
        metrics = Path(folder) / f"{name}.json"
        ranks = Path(folder) / f"{name}.h5"
        relevance = paths["images"].parent / "relevance.parquet"
        scores = read_scores(output, "test")
        source = GroupFile(output).attributes
        evaluate_split(scores, source, relevance, metrics, ranks, chosen, has_page=False)
        click.echo("\n".join(described(read_results([metrics], [ranks]), params.corpus_name)))


def paths_by_key(
    files: tuple[Path, ...], val: Path | None, similarity: Similarity | None
) -> dict[str, Path]:
    """What is to be read.

    Args:
        files: the arguments of the command; clip-retrieval's folder stands for two.
        val: the matrix of the validation split, or None.
        similarity: of embeddings, or None.

    Returns:
        Paths by the keys of `external`.

    Raises:
        WorkbenchError: where arguments do not fit.
    """
    if len(files) == 1 and has_both(files[0]):
        files = files * 2
    if len(files) > 2 or (len(files) == 2 and val) or (len(files) == 1 and similarity):
        options = {"--val": val, "--similarity": similarity}
        flags = [f" with {option}" for option, value in options.items() if value]
        raise WorkbenchError(
            f"{counted(len(files), 'file')}{''.join(flags)}",
            "give one matrix of scores, with or without --val, or embeddings of images and of "
            "captions, with or without --similarity",
        )
    keys = ("scores", "val_scores") if len(files) == 1 else ("images", "captions")
    return dict(zip(keys, (*files, val) if val else files, strict=False))
