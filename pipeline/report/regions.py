"""An image with its numbered regions drawn over it, and a list of what each was taken for."""

from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from pipeline.corpus.images import open_rgb
from pipeline.features.feature_file import FeatureFile
from pipeline.features.regions.boxes import names_of
from pipeline.report.pictures import OKABE_ITO, Font, Point, free_place, resized
from pipeline.runtime.text import printable

SIDE = 900  # pixels of the image's longer side as drawn
LINE = 26  # pixels a line of the list takes
TEXT = 17  # pixels
LIST = 430  # pixels, width of the list
LONGEST_NAME = 24  # characters


def draw_regions(file: FeatureFile, name: str, path: Path | str) -> Image.Image:
    """An image with its numbered boxes, and beside it what is in each, most confident first.

    Args:
        file: of regions with boxes.
        name: the image's id.
        path: its file.

    Returns:
        An RGB image.
    """
    image = resized(open_rgb(path), SIDE)
    labels = _labels(file, name, image.size)
    font = ImageFont.load_default(TEXT)
    width, height = image.size
    tall = max(height, LINE * (len(labels) + 2))
    sheet = Image.new("RGB", (width + LIST, tall), "white")
    sheet.paste(image, (0, 0))
    draw = ImageDraw.Draw(sheet)
    numbered = list(enumerate(labels, start=1))
    for number, (box, _) in reversed(numbered):  # the most confident on top
        draw.rectangle(box, outline="white", width=5)  # seen on any background
        draw.rectangle(box, outline=_colour(number), width=3)
    taken: list[Point] = []
    for number, ((left, top, _, _), _) in numbered:
        corner = min(max(left, 0), width - 30), min(max(top, 0), height - 22)
        taken.append(free_place(corner, taken, 28, 21))
        _draw_number(draw, number, taken[-1], font)
    draw.text((width + 14, 8), f"{_short(name)}: {len(labels)} regions", "black", font)
    for number, (_, text) in numbered:
        _draw_number(draw, number, (width + 14, 8 + number * LINE), font)
        draw.text((width + 52, 8 + number * LINE), text or "no label", "black", font)
    return sheet


def _labels(file: FeatureFile, name: str, shown: tuple[int, int]) -> list[tuple[list[float], str]]:
    """By region x1, y1, x2, y2 in pixels as drawn, and its classes with their confidences."""
    row = file.rows([name])
    count = int(file.read(row, "counts")[0])
    scale = np.tile(np.divide(shown, file.read(row, "sizes")[0]), 2)
    boxes = file.read(row, "boxes")[0][:count] * scale
    objects = _texts(file, row, "objects", "object_names", "confidences", count)
    attributes = _texts(file, row, "attributes", "attribute_names", "attribute_confidences", count)
    return [
        (box.tolist(), ", ".join(filter(None, texts)))
        for box, *texts in zip(boxes, objects, attributes, strict=True)
    ]


def _texts(
    file: FeatureFile, row: np.ndarray, classes: str, names: str, scores: str, count: int
) -> list[str]:
    if classes not in file.layouts or scores not in file.layouts:
        return [""] * count
    known = names_of(file, names)
    pairs = zip(file.read(row, classes)[0][:count], file.read(row, scores)[0][:count], strict=True)
    return [
        f"{_short(known[kind]) if kind < len(known) else f'class {kind}'} {score:.2f}"
        if kind >= 0
        else ""
        for kind, score in pairs
    ]


def _short(name: str) -> str:
    shown = printable(name)
    return shown if len(shown) <= LONGEST_NAME else shown[: LONGEST_NAME - 1] + "…"


def _colour(number: int) -> str:
    return OKABE_ITO[(number - 1) % len(OKABE_ITO)]


def _draw_number(draw: ImageDraw.ImageDraw, number: int, corner: Point, font: Font) -> None:
    left, top = corner
    wide = 16 if number < 10 else 27
    draw.rectangle((left, top, left + wide, top + 20), "white", _colour(number), width=2)
    draw.text((left + 3, top), str(number), "black", font)
