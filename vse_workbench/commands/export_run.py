"""Write scores as runs and qrels in TREC format."""

from pathlib import Path

import click

from pipeline.corpus.tables import RELEVANCE, read_table
from pipeline.evaluation.criteria import CRITERIA
from pipeline.evaluation.criterion import Criterion
from pipeline.evaluation.protocol import first_images
from pipeline.evaluation.score_file import read_scores
from pipeline.evaluation.truth import DIRECTIONS, relevance_of
from pipeline.runtime.graph import EVALUATING, stage_of, stage_paths
from pipeline.runtime.process import say
from stages.common import command, model_name, to_folder
from stages.params import load_for_queries
from vse_workbench.trec.write import write_pairs, write_positives, write_run

GROUP = "take out"


@command
@model_name
@click.option("--output", type=to_folder, required=True, help="Folder to write to.")
@click.option("--criterion", default="naive", type=click.Choice(list(CRITERIA)))
@click.option("--split", default="test", help="Split to export.")
@click.option(
    "--depth", default=1000, type=click.IntRange(min=0), help="Items a query at most, 0 for all."
)
def main(name: str, output: Path, criterion: str, split: str, depth: int) -> None:
    """Write MODEL.i2t.run, MODEL.t2i.run and the qrels they are judged by.

    MODEL is whatever dvc.yaml evaluates: a model, an average or scores of another program.

    Example: vse export run vse --output runs
    """
    params = load_for_queries()
    stage = stage_of(name, EVALUATING)
    files = stage_paths(stage, ("scores", "relevance"), name)
    scores = read_scores(files["scores"], split, needed_by="a run")
    scores = first_images(scores, params.evaluation.subset)
    chosen = Criterion(criterion, **params.inference.model_dump(exclude={"criteria"}))
    pairs = None
    if params.corpus.positives != "none" and split == "test":
        table = read_table(files["relevance"], RELEVANCE)
        name_of_list = params.corpus.positives
        pairs = relevance_of(name_of_list, table, scores.image_ids, scores.caption_ids)
    tag = name if criterion == "naive" else f"{name}+{criterion}"
    for way in DIRECTIONS:
        run = output / f"{tag}.{way}.run"
        rescored = chosen.rescored(scores.matrix, way)
        tied = write_run(run, scores, rescored, way, depth, tag)
        write_pairs(output / f"{split}.{way}.qrels", scores, way)
        if pairs is not None:
            listed = output / f"{params.corpus.positives}.{way}.qrels"
            write_positives(listed, scores, pairs.positives(way), way)
        say(f"{run}: queries with equal scores: {tied:,}; true items were put behind")
    if params.evaluation.folds > 1 and split == "test":
        say(f"evaluation.folds = {params.evaluation.folds}: the runs are of the whole split")
