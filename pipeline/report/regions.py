"""An image with its regions drawn over it: whether boxes and labels are sensible is seen at once.

Regions overlap, so that labels on the boxes would hide one another: boxes carry numbers, and a list
beside the image says what each was taken for.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from pipeline.corpus.images import open_rgb
from pipeline.inputs.regions import ROWS, has_boxes, names_of
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.files import atomic_path
from pipeline.runtime.text import printable
from pipeline.storage.features import FeatureFile

SIDE = 900  # pixels of the image's longer side as drawn
LINE = 26  # pixels a line of the list takes
TEXT = 17  # pixels
LIST = 430  # pixels, width of the list
LONGEST_NAME = 24  # characters

# Okabe and Ito's colours, told apart by colour-blind eyes, without their black and yellow.
COLOURS = ("#E69F00", "#56B4E9", "#009E73", "#D55E00", "#CC79A7", "#0072B2")


@dataclass(frozen=True)
class Label:
    """What one region was taken for.

    Attributes:
        number: from 1, in the order of the file.
        box: x1, y1, x2, y2 in pixels of the image as drawn.
        text: its classes with their confidences.
    """

    number: int
    box: list[float]
    text: str

    @property
    def colour(self) -> str:
        """The region's own colour, as far as there are enough."""
        return COLOURS[(self.number - 1) % len(COLOURS)]


def check_drawable(file: FeatureFile, name: str) -> None:
    """Raise WorkbenchError unless the file holds regions with boxes, some of them this image's."""
    lacking = [dataset for dataset in ROWS if dataset not in file.layouts]
    if lacking:
        raise WorkbenchError(
            f"{file.path}: no regions to draw: it has no {', '.join(lacking)}",
            "--picture is for the file that extract_region_features writes",
        )
    if not has_boxes(file):
        raise WorkbenchError(f"{file.path}: its regions have no boxes, so none can be drawn")
    file.rows([name])


def draw_regions(file: FeatureFile, name: str, path: Path | str) -> Image.Image:
    """The image of an id with its boxes, and beside it what is in each, most confident first.

    Args:
        file: regions with boxes.
        name: the id.
        path: the image's file.

    Raises:
        WorkbenchError: the file holds no regions with boxes.
    """
    check_drawable(file, name)
    image = open_rgb(path)
    width, height = (max(1, round(side * SIDE / max(image.size))) for side in image.size)
    image = image.resize((width, height))
    labels = _labels(file, name, image.size)
    return _drawn(image, labels, name)


def write_picture(image: Image.Image, target: Path) -> None:
    """Write a picture as PNG; WorkbenchError when the name says otherwise."""
    if target.suffix.lower() != ".png":
        raise WorkbenchError(f"--picture {target}: pictures are written as .png")
    with atomic_path(target) as temporary:
        image.save(temporary, "PNG")


def _labels(file: FeatureFile, name: str, shown: tuple[int, int]) -> list[Label]:
    row = file.rows([name])
    count = int(file.read(row, "counts")[0])
    scale = np.tile(np.divide(shown, file.read(row, "sizes")[0]), 2)
    boxes = file.read(row, "boxes")[0][:count] * scale
    objects = _texts(file, row, "objects", "object_names", "confidences", count)
    attributes = _texts(file, row, "attributes", "attribute_names", "attribute_confidences", count)
    return [
        Label(number + 1, box.tolist(), ", ".join(filter(None, (thing, quality))))
        for number, (box, thing, quality) in enumerate(zip(boxes, objects, attributes, strict=True))
    ]


def _texts(
    file: FeatureFile, row: np.ndarray, classes: str, names: str, scores: str, count: int
) -> list[str]:
    """A name with its confidence for each region, empty where there is no class."""
    if classes not in file.layouts or scores not in file.layouts:
        return [""] * count
    known = names_of(file, names)
    found = zip(file.read(row, classes)[0][:count], file.read(row, scores)[0][:count], strict=True)
    return [
        f"{_short(known[kind]) if kind < len(known) else f'class {kind}'} {score:.2f}"
        if kind >= 0
        else ""
        for kind, score in found
    ]


def _short(name: str) -> str:
    shown = printable(name)
    return shown if len(shown) <= LONGEST_NAME else shown[: LONGEST_NAME - 1] + "…"


def _drawn(image: Image.Image, labels: list[Label], name: str) -> Image.Image:
    font = ImageFont.load_default(TEXT)
    width, height = image.size
    tall = max(height, LINE * (len(labels) + 2))
    sheet = Image.new("RGB", (width + LIST, tall), "white")
    sheet.paste(image, (0, 0))
    draw = ImageDraw.Draw(sheet)
    for label in reversed(labels):  # the most confident on top
        _outline(draw, label)
    taken: list[tuple[float, float]] = []
    for label in labels:
        taken.append(_free(_corner(label, width, height), taken))
        _tag(draw, label, taken[-1], font)
    draw.text((width + 14, 8), f"{_short(name)}: {len(labels)} regions", "black", font)
    for line, label in enumerate(labels, start=1):
        _tag(draw, label, (width + 14, 8 + line * LINE), font)
        draw.text((width + 52, 8 + line * LINE), label.text or "no label", "black", font)
    return sheet


def _outline(draw: ImageDraw.ImageDraw, label: Label) -> None:
    draw.rectangle(label.box, outline="white", width=5)  # seen on any background
    draw.rectangle(label.box, outline=label.colour, width=3)


def _corner(label: Label, width: int, height: int) -> tuple[float, float]:
    """Where the number of a box goes: its upper left corner, inside the image."""
    left, top, _, _ = label.box
    return min(max(left, 0), width - 30), min(max(top, 0), height - 22)


def _free(place: tuple[float, float], taken: list[tuple[float, float]]) -> tuple[float, float]:
    """The place, or below it where other numbers are already."""
    left, top = place
    while any(abs(left - x) < 28 and abs(top - y) < 21 for x, y in taken):
        top += 21
    return left, top


def _tag(
    draw: ImageDraw.ImageDraw,
    label: Label,
    place: tuple[float, float],
    font: ImageFont.FreeTypeFont | ImageFont.ImageFont,
) -> None:
    left, top = place
    wide = 16 if label.number < 10 else 27
    draw.rectangle((left, top, left + wide, top + 20), fill=label.colour)
    draw.text((left + 3, top), str(label.number), "white", font)
