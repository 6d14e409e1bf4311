"""Write a trained model as a folder that answers queries elsewhere."""

from pathlib import Path

import click

from models.base.queries import query_files, query_model
from models.base.registry import models_with, offered
from pipeline.comparison.results import read_results
from pipeline.corpus.tables import SPLITS, load_captions, load_images
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.files import write_text
from pipeline.runtime.graph import stage_paths
from pipeline.runtime.process import say
from pipeline.runtime.repeatable import pick_device, set_threads
from pipeline.search.index import read_index
from pipeline.storage.checkpoint import read_checkpoint
from stages.common import command, model_name, to_folder
from stages.params import load_params
from vse_workbench.export.card import card
from vse_workbench.export.folder import read_folder, write_folder
from vse_workbench.export.onnx import write_tower

GROUP = "take out"


@command
@model_name
@click.option("--output", type=to_folder, required=True, help="Folder to write.")
@click.option("--onnx", is_flag=True, help="Both towers as ONNX files, too.")
@click.option("--licence", default="Apache-2.0", help="Of the weights, for the card.")
def main(name: str, output: Path, onnx: bool, licence: str) -> None:
    """Write MODEL with all that its queries need, for `Embedder` and `vse search --from`.

    Example: vse export model vse --output exported
    """
    params = load_params()
    set_threads(params.runtime.threads)
    files = query_files(name)
    checkpoint = read_checkpoint(files["checkpoint"], name)
    read_index(files["output"], "test", "image", checkpoint.sha256)  # of these weights, or refused
    towers = offered(name, "towers", "towers") if onnx else None
    if onnx and towers is None:
        able = ", ".join(models_with("towers", "towers"))
        raise WorkbenchError(f"--onnx: {name} has no vector of each side alone; {able} have")
    evaluated = stage_paths("evaluate", ("metrics", "ranks"), name)
    results = read_results([evaluated["metrics"]], [evaluated["ranks"]])
    tables = load_images(files["images"]), load_captions(files["captions"])
    images, captions = (table["split"].value_counts() for table in tables)
    sizes = {n: (int(images.get(n, 0)), int(captions.get(n, 0))) for n in SPLITS}
    config = write_folder(output, files, checkpoint)
    write_text(output / "README.md", card(config, results, params.dataset, sizes, licence))
    again = read_folder(output)
    query_model(*again, pick_device("cpu"))  # what was written answers, or is refused here
    for side, tower in (towers(checkpoint) if towers else {}).items():
        difference = write_tower(output / f"{side}_tower.onnx", tower)
        say(f"{output / f'{side}_tower.onnx'}: differs from the model by {difference:.1g} at most")
    say(f"{name}: exported to {output}, {len(config['files'])} files and a card")
