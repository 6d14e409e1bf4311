"""What the pictures of the report share: colours, sizes, and how they live inside the page."""

import base64
import io
from pathlib import Path

from PIL import Image, ImageFont

from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.files import atomic_path

SIDE = 160  # largest width and height of a thumbnail, pixels

# Okabe and Ito's colours, told apart by colour-blind eyes, without their black and yellow.
OKABE_ITO = ("#E69F00", "#56B4E9", "#009E73", "#D55E00", "#CC79A7", "#0072B2")

Font = ImageFont.ImageFont | ImageFont.FreeTypeFont
Point = tuple[float, float]


def thumbnail(image: Image.Image, side: int = SIDE, quality: int = 80) -> str:
    """A small image as a data URI.

    Args:
        image: RGB; never enlarged.
        side: pixels, the largest width and height.
        quality: of the JPEG, 1 to 95.

    Returns:
        The address.
    """
    small = image.copy()
    small.thumbnail((side, side))
    return data_uri(small, quality)


def data_uri(image: Image.Image, quality: int = 82) -> str:
    """An image as a JPEG inside an address.

    Args:
        image: RGB.
        quality: of the JPEG, 1 to 95.

    Returns:
        The address.
    """
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=quality, optimize=True)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode()


def check_png(target: Path) -> None:
    """Raise WorkbenchError for the name of a picture that is to be written as anything but PNG."""
    if target.suffix.lower() != ".png":
        raise WorkbenchError(f"{target}: pictures are written as .png")


def write_png(image: Image.Image, target: Path) -> None:
    """Write a picture atomically.

    Args:
        image: RGB.
        target: the file.
    """
    with atomic_path(target) as temporary:
        image.save(temporary, "PNG")


def resized(image: Image.Image, side: int) -> Image.Image:
    """An image at another size: small ones are enlarged, to have room to draw.

    Args:
        image: RGB.
        side: pixels of the longer side.

    Returns:
        A new image.
    """
    width, height = (max(1, round(length * side / max(image.size))) for length in image.size)
    return image.resize((width, height), Image.Resampling.BICUBIC)


def free_place(place: Point, taken: list[Point], width: float, height: float) -> Point:
    """A place for a label, or the nearest below it where it covers no other label.

    Args:
        place: x and y that are wished for.
        taken: places of labels of the same size.
        width: of a label, pixels.
        height: of a label, pixels.

    Returns:
        x and y.
    """
    left, top = place
    while any(abs(left - x) < width and abs(top - y) < height for x, y in taken):
        top += height
    return left, top
