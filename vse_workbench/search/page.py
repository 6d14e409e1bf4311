"""Search results as one HTML file that needs nothing else: thumbnails are part of it."""

import base64
import io
from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from PIL import Image

from pipeline.corpus.images import open_rgb
from pipeline.search.index import Hit

TEMPLATES = Path(__file__).with_name("templates")
THUMBNAIL = 240  # largest side, pixels
QUALITY = 85  # of JPEG


def page(query: str, image: Image.Image | None, hits: Sequence[Hit], model: str, split: str) -> str:
    """A page of hits without scripts, its pictures inside, for any width, light and dark screens.

    `query` is the text, or the name of the image file searched with; `image` None for a text.
    """
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    pictures: dict[str, str] = {}  # several captions may describe one image
    for hit in hits:
        if hit.path not in pictures:
            pictures[hit.path] = data_uri(open_rgb(hit.path))
    return environment.get_template("search.html").render(
        query=query,
        picture=None if image is None else data_uri(image),
        hits=[(hit, pictures[hit.path]) for hit in hits],
        model=model,
        split=split,
    )


def data_uri(image: Image.Image) -> str:
    """An RGB image as a JPEG data URI, at most THUMBNAIL pixels on its longer side."""
    small, buffer = image.copy(), io.BytesIO()
    small.thumbnail((THUMBNAIL, THUMBNAIL), Image.Resampling.LANCZOS)
    small.save(buffer, "JPEG", quality=QUALITY)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode()
