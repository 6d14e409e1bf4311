"""Write a trained model as a folder that answers queries elsewhere."""

from pathlib import Path

import click

from models.base.queries import query_files, query_model
from models.base.registry import required
from pipeline.corpus.tables import SPLITS, load_captions, load_images
from pipeline.evaluation.comparison import read_results
from pipeline.runtime.files import write_text
from pipeline.runtime.graph import stage_paths
from pipeline.runtime.process import say
from pipeline.runtime.repeatable import pick_device
from pipeline.search.index import read_index
from pipeline.storage.checkpoint import read_checkpoint
from stages.common import command, model_name, to_folder
from stages.params import load_for_queries
from vse_workbench.export.card import card
from vse_workbench.export.folder import finish, new_content, read_folder, write_folder
from vse_workbench.export.onnx import write_networks

GROUP = "take out"


@command
@model_name
@click.option("--output", type=to_folder, required=True, help="Folder to write.")
@click.option("--onnx", is_flag=True, help="All its networks as ONNX files, too.")
@click.option("--licence", default="Apache-2.0", help="Of the weights, for the card.")
def main(name: str, output: Path, onnx: bool, licence: str) -> None:
    """Write MODEL with all that its queries need, for `Embedder` and `vse search --from`.

    Example: vse export model vse --output exported
    """
    params, files = load_for_queries(), query_files(name)
    checkpoint = read_checkpoint(files["checkpoint"], name)
    read_index(files["output"], "test", "image", checkpoint.sha256)  # of these weights, or refused
    problem = "--onnx: models/{name} has no towers.py; {able} have one"
    towers = required(name, "towers", "towers", problem) if onnx else None
    evaluated = stage_paths("evaluate", ("metrics", "ranks"), name)
    results = read_results([evaluated["metrics"]], [evaluated["ranks"]])
    tables = load_images(files["images"]), load_captions(files["captions"])
    images, captions = (table["split"].value_counts() for table in tables)
    numbers = {n: (int(images.get(n, 0)), int(captions.get(n, 0))) for n in SPLITS}
    with new_content(output) as folder:
        config = write_folder(folder, files, checkpoint)
        if towers:
            sizes = checkpoint.description.architecture
            config |= write_networks(folder, towers(checkpoint), files, sizes)
        readme = card(config, results, params.dataset, numbers, licence)
        write_text(folder / "README.md", readme)
        finish(folder, config)
        query_model(*read_folder(folder), pick_device("cpu"))  # it answers, or is refused here
    say(f"{name}: exported to {output}")
