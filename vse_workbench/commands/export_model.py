"""Write a trained model as a folder that answers queries elsewhere."""

from pathlib import Path

import click

from pipeline.corpus.tables import SPLITS, load_captions, load_images
from pipeline.evaluation.comparison import read_results
from pipeline.features.checkpoint import read_checkpoint
from pipeline.runtime.files import write_text
from pipeline.runtime.graph import stage_of, stage_paths, stages_of_models
from pipeline.runtime.process import say
from pipeline.runtime.repeatable import pick_device
from pipeline.search.index import read_index
from stages.common import command, model_name, to_folder
from stages.params import load_for_queries
from vse_workbench.export.card import model_card
from vse_workbench.export.folder import read_folder, replacing_export, write_config, write_folder
from vse_workbench.export.onnx import open_sides, write_networks
from vse_workbench.search.embedder import QueryEmbedder, query_files

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
    params = load_for_queries()
    files = query_files(name)
    checkpoint = read_checkpoint(files["checkpoint"], name)
    read_index(files["output"], "test", "image", checkpoint.sha256)  # of these weights, or refused
    sides = open_sides(name, checkpoint) if onnx else None
    evaluation = stage_of(name, stages_of_models("evaluate"))
    evaluated = stage_paths(evaluation, ("metrics", "ranks"), name)
    results = read_results([evaluated["metrics"]], [evaluated["ranks"]])
    images = load_images(files["images"])["split"].value_counts()
    captions = load_captions(files["captions"])["split"].value_counts()
    numbers = {n: (int(images.get(n, 0)), int(captions.get(n, 0))) for n in SPLITS}
    with replacing_export(output) as folder:
        config = write_folder(folder, files, checkpoint)
        if sides:
            sizes = checkpoint.description.architecture
            config |= write_networks(folder, sides, files, sizes)
        readme = model_card(config, results, params.dataset, numbers, licence)
        write_text(folder / "README.md", readme)
        write_config(folder, config)
        model, copied, weights = read_folder(folder)
        QueryEmbedder(model, copied, weights, pick_device("cpu"))  # it answers, or is refused here
    say(f"{name}: exported to {output}")
