"""Draw what a model attends to in an image and a caption."""

from pathlib import Path

import click

from models.attention.pictures import open_attention
from pipeline.corpus.images import file_of_image
from pipeline.corpus.tables import load_captions, load_images
from pipeline.features.checkpoint import read_checkpoint
from pipeline.features.data import Inputs
from pipeline.report.attention import draw_attention
from pipeline.report.pictures import check_png, write_png
from pipeline.runtime.graph import stage_paths
from pipeline.runtime.process import say
from pipeline.runtime.repeatable import pick_device
from stages.common import command, model_name, target
from stages.params import load_for_queries

GROUP = "look"


@command
@model_name
@click.option("--caption", "caption_id", required=True, help="Id of a caption of the test split.")
@click.option("--image", "image_id", help="Id of an image of it; the caption's own by default.")
@click.option("--output", type=target, required=True, help="Picture to write, .png.")
def main(name: str, caption_id: str, image_id: str | None, output: Path) -> None:
    """Draw the image for every word of a caption, lit where MODEL looks; files as in dvc.yaml.

    Example: vse attention scan --caption 'test_00000.jpg#0' --output attention.png
    """
    check_png(output)
    params = load_for_queries()
    read = "images", "captions", "features", "text", "checkpoint"
    files = stage_paths("score", read, name)
    checkpoint = read_checkpoint(files.pop("checkpoint"), name)
    inputs = Inputs(**files)
    device = pick_device(params.runtime.device)
    reader = open_attention(name, checkpoint, inputs, device, "test")
    pair = reader(image_id or reader.image_of(caption_id), caption_id)
    path = load_images(inputs.images).set_index("image_id")["path"][pair.image_id]
    text = load_captions(inputs.captions).set_index("caption_id")["text"][caption_id]
    write_png(draw_attention(pair, file_of_image(pair.image_id, path), text), output)
    say(f"{output}: {name}, image {pair.image_id}, caption {caption_id}")
