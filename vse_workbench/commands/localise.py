"""Find a phrase in an image and draw its best boxes."""

from pathlib import Path

import click

from models.phrases.queries import localise
from pipeline.corpus.images import file_of_image, open_rgb
from pipeline.corpus.tables import load_images
from pipeline.report.phrases import COLOURS, draw_boxes
from pipeline.report.pictures import check_png, write_png
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.first_bytes import absent
from pipeline.runtime.graph import stage_paths
from pipeline.runtime.process import say
from pipeline.runtime.repeatable import pick_device
from pipeline.search.index import query_words
from stages.common import command, target
from stages.params import load_for_queries

GROUP = "look"

SIDE = 640  # pixels of the picture's longer side
INPUTS = ("phrases", "proposals", "truth", "vectors", "checkpoint")


@command
@click.argument("phrase")
@click.option("--image", required=True, help="Id of an image of the corpus, or a file.")
@click.option("--output", type=target, required=True, help="Picture to write, .png.")
@click.option("--model", "name", default="phrase_two_branch")
@click.option("--top", default=1, type=click.IntRange(1, len(COLOURS)))
def main(phrase: str, image: str, output: Path, name: str, top: int) -> None:
    """Draw the boxes where MODEL finds PHRASE, and print them; files as in dvc.yaml.

    A line per box, best first: its cosine with the phrase, its edges in pixels of the image from
    the top left corner, its colour in the picture.

    Example: vse localise "a big red star" --image test_00011.jpg --output boxes.png
    """
    check_png(output)
    words = query_words(phrase)
    params = load_for_queries()
    files = stage_paths("evaluate_phrases", INPUTS, name)
    files |= stage_paths("extract_proposals", ("images", "detector"))
    files |= stage_paths("encode_phrases", ("encoder",))
    table = load_images(files.pop("images")).set_index("image_id")
    path = Path(file_of_image(image, table["path"][image]) if image in table.index else image)
    if not path.is_file():
        reason = absent(image, "neither an image of the corpus nor a file")
        raise WorkbenchError(f"--image {image}: {reason}")
    picture = open_rgb(path, int(params.corpus.max_megapixels * 1e6))
    wordnet = params.sentences.tfidf.wordnet_folder
    device = pick_device(params.runtime.device)
    result = localise(name, words, picture, top, files, params.phrases, wordnet, device)
    colours = COLOURS[: len(result.boxes)]
    # the best box on top
    write_png(draw_boxes(picture, list(result.boxes[::-1]), colours[::-1], SIDE), output)
    click.echo("cosine   left    top  right bottom  colour (edges in pixels)")
    for colour, box, score in zip(colours, result.boxes, result.scores, strict=True):
        click.echo(f"{score:6.3f} {' '.join(f'{edge:6.0f}' for edge in box)}  {colour}")
    say(f"{output}: {name}, best {len(colours)} of {result.proposals} proposals")
