"""An image with its numbered regions drawn over it, and a list of what each was taken for."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from pipeline.corpus.images import open_rgb
from pipeline.inputs.regions import ROWS, has_boxes, names_of
from pipeline.report.pictures import OKABE_ITO, Point, fitted, free_place
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.files import atomic_path
from pipeline.runtime.text import printable
from pipeline.storage.features import FeatureFile

SIDE = 900  # pixels of the image's longer side as drawn
LINE = 26  # pixels a line of the list takes
TEXT = 17  # pixels
LIST = 430  # pixels, width of the list
LONGEST_NAME = 24  # characters


@dataclass(frozen=True)
class Label:
    number: int  # from 1, in the order of the file
    box: list[float]  # x1, y1, x2, y2 in pixels of the image as drawn
    text: str  # its classes with their confidences

    @property
    def colour(self) -> str:
        """The region's own colour, as far as there are enough."""
        return OKABE_ITO[(self.number - 1) % len(OKABE_ITO)]


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
    """The image of an id with its boxes, and beside it what is in each, most confident first."""
    image = fitted(open_rgb(path), SIDE)
    return _drawn(image, _labels(file, name, image.size), name)


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
        draw.rectangle(label.box, outline="white", width=5)  # seen on any background
        draw.rectangle(label.box, outline=label.colour, width=3)
    taken: list[Point] = []
    for label in labels:
        left, top, _, _ = label.box
        corner = min(max(left, 0), width - 30), min(max(top, 0), height - 22)
        taken.append(free_place(corner, taken, 28, 21))
        _tag(draw, label, taken[-1], font)
    draw.text((width + 14, 8), f"{_short(name)}: {len(labels)} regions", "black", font)
    for line, label in enumerate(labels, start=1):
        _tag(draw, label, (width + 14, 8 + line * LINE), font)
        draw.text((width + 52, 8 + line * LINE), label.text or "no label", "black", font)
    return sheet


def _tag(
    draw: ImageDraw.ImageDraw,
    label: Label,
    place: Point,
    font: ImageFont.FreeTypeFont | ImageFont.ImageFont,
) -> None:
    left, top = place
    wide = 16 if label.number < 10 else 27
    draw.rectangle((left, top, left + wide, top + 20), fill=label.colour)
    draw.text((left + 3, top), str(label.number), "white", font)
