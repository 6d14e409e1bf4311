"""Small pictures that live inside the page itself."""

import base64
import io
from pathlib import Path

from pipeline.corpus.images import open_rgb

SIDE = 160  # largest width and height, pixels
QUALITY = 80


def thumbnail(path: Path | str) -> str:
    """An image file as a data URI of a JPEG of at most SIDE pixels a side, never enlarged.

    Raises WorkbenchError naming the file when it is missing or cannot be decoded.
    """
    image = open_rgb(path)
    image.thumbnail((SIDE, SIDE))
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=QUALITY, optimize=True)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode()
