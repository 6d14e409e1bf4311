"""Search results as one HTML file that needs nothing else: thumbnails are part of it."""

from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from PIL import Image

from pipeline.corpus.images import open_rgb
from pipeline.report.pictures import thumbnail
from pipeline.search.index import Hit

TEMPLATES = Path(__file__).with_name("templates")
THUMBNAIL = 240  # pixels of the longer side
QUALITY = 85  # of JPEG


def results_page(query: str, image: Image.Image | None, hits: Sequence[Hit], about: str) -> str:
    """A page of hits without scripts, its pictures inside; of images without files their ids alone.

    Args:
        query: the text, or the name of the image file searched with.
        image: that was searched with; None for a text.
        hits: best first.
        about: what was searched, with which model.

    Returns:
        The document.
    """
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    different = dict.fromkeys(hit.path for hit in hits)  # captions may share an image
    pictures = {
        path: thumbnail(open_rgb(path), THUMBNAIL, QUALITY) if path else None for path in different
    }
    return environment.get_template("search.html").render(
        query=query,
        picture=None if image is None else thumbnail(image, THUMBNAIL, QUALITY),
        hits=[(hit, pictures[hit.path]) for hit in hits],
        about=about,
    )
