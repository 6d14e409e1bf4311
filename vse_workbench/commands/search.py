"""Find the images nearest to a text, or the captions nearest to an image."""

import time
from pathlib import Path

import click
from click.core import ParameterSource
from PIL import Image

from pipeline.corpus.images import open_rgb
from pipeline.evaluation.criteria import single_query_criteria
from pipeline.evaluation.criterion import Criterion
from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.runtime.files import write_text
from pipeline.runtime.process import print_json, say
from pipeline.runtime.repeatable import pick_device
from pipeline.search.index import SHORTLIST, hit_lines, query_words
from stages.common import command, json_option, target, to_folder
from stages.params import load_for_queries
from vse_workbench.export.embedder import MAX_PIXELS, Embedder
from vse_workbench.export.folder import read_folder
from vse_workbench.search.page import results_page
from vse_workbench.search.photographs import search_folder
from vse_workbench.search.searcher import Answer, Question, as_dict, best_model, open_searcher

GROUP = "look"

CHOSEN = "How many the vectors or an index choose, at least --top; the best are ordered."
CORPUS = ("split", "shortlist", "criterion")  # options of a search in the corpus


@command
@click.argument("query", required=False, metavar="[TEXT]")
@click.option("--image", type=target, help="Image file to search with instead of TEXT.")
@click.option("--model", "name", help="Model, or item of rerank; default: the best.")
@click.option("--from", "folder", type=to_folder, help="Exported folder, instead of --model.")
@click.option("--images", type=to_folder, help="Folder to search with --from, of no run.")
@click.option("--top", default=5, type=click.IntRange(min=1), help="Results.")
@click.option("--split", default="test", help="Split to search.")
@click.option("--shortlist", default=SHORTLIST, type=click.IntRange(min=1), help=CHOSEN)
@click.option("--criterion", default="naive", type=click.Choice(single_query_criteria()))
@click.option("--html", type=target, help="Page with thumbnails to write.")
@json_option
def main(
    query: str | None,
    image: Path | None,
    name: str | None,
    folder: Path | None,
    images: Path | None,
    top: int,
    split: str,
    shortlist: int,
    criterion: str,
    html: Path | None,
    as_json: bool,
) -> None:
    """Find the images nearest to TEXT, or the captions nearest to an image.

    With --from and --images the images of any folder, nearest to a text or to an image.

    Example: vse search "a purple cross left of a tiny yellow box" --model vse
    """
    if (query is None) == (image is None):
        raise WorkbenchError("give either a text or --image FILE")
    if name is not None and folder is not None:
        raise WorkbenchError("give either --model MODEL or --from FOLDER")
    began = time.perf_counter()
    if query is not None:
        query_words(query)  # whatever is wrong with it is said before anything is loaded
    if images is not None:
        picture = open_rgb(image, MAX_PIXELS) if image else None
        name, answer = _search_in_folder(folder, images, query, picture, top)
        scope = str(images)
    else:
        if folder is not None and not Path("params.yaml").exists():
            raise WorkbenchError(
                "params.yaml: no such file, so there is no corpus to search here",
                "name a folder of photographs with --images FOLDER",
            )
        params = load_for_queries()
        picture = open_rgb(image, int(params.corpus.max_megapixels * 1e6)) if image else None
        brought = None
        if folder is not None:
            name, brought, _ = read_folder(folder)
        name = name or best_model()
        device = pick_device(params.runtime.device)
        searcher = open_searcher(name, device, params, {}, brought)
        inference = params.inference.model_dump(exclude={"criteria"})
        question = Question(split, top, shortlist, Criterion(criterion, **inference))
        if picture is not None:
            answer = searcher.of_image(picture, question)
        else:
            answer = searcher.of_text(str(query), question)
        scope = f"the {split} split"
    for note in answer.notes:
        say(note)
    if as_json:
        print_json([as_dict(hit) for hit in answer.hits])
    else:
        click.echo("\n".join(hit_lines(answer.hits)))
    if html:
        title = image.name if image else str(query)
        write_text(
            html, results_page(title, picture, answer.hits, f"{answer.kind}s of {scope} by {name}")
        )
        shown = " with their images" if any(hit.path for hit in answer.hits) else ""
        say(f"{html}: {len(answer.hits)} results{shown}")
    seconds = time.perf_counter() - began
    say(f"{name}: {answer.searched:,} {answer.kind}s of {scope} searched in {seconds:.2f} s")


def _search_in_folder(
    exported: Path | None, images: Path, query: str | None, picture: Image.Image | None, top: int
) -> tuple[str, Answer]:
    """The name of an exported model, and the images of a folder nearest to a text or a picture."""
    if exported is None:
        raise WorkbenchError("--images FOLDER needs --from EXPORTED", "vse export model writes it")
    source = click.get_current_context().get_parameter_source
    flags = [f"--{name}" for name in CORPUS if source(name) != ParameterSource.DEFAULT]
    if flags:
        raise WorkbenchError(f"{listing(flags)}: of a search in the corpus, not with --images")
    embedder = Embedder.load(exported, "auto")
    if not embedder.scores_are_products:
        able = "vse, two_branch, cca, dual_path and vse_infinity can"
        raise WorkbenchError(f"{embedder.model} has no vector of an image alone: {able}")
    vector = embedder.captions([str(query)])[0] if picture is None else embedder.of_image(picture)
    return embedder.model, search_folder(embedder, images, vector, top)
