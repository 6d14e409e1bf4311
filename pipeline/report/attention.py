"""For every word the image, lit where the model looked: captions speak of colours, not of light."""

import textwrap
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from pipeline.corpus.images import open_rgb
from pipeline.features.groups import GroupFile
from pipeline.report.attention_pairs import PairAttention, RankedPair, read_attention
from pipeline.report.pictures import Font, Point, data_uri, free_place, resized
from pipeline.report.shelf import REMEDY, CorpusLookup
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.text import printable

TILE = 132  # largest width and height of a word's picture on the page, pixels
WHOLE = 264  # of the picture with the order of the objects
# of a drawing in a file of its own: a word's picture, the whole image, the sheet
SHEET_TILE = 220
SHEET_WHOLE = 460
SHEET_WIDTH = 1180
DARKEST = 0.3  # share of its light that a pixel keeps where nothing was attended to
FIRST = (255, 224, 70)  # colour of the first object
LAST = (70, 60, 200)  # of the last one
INK = "#1c2024"
SOFT = "#5a6370"
BAR = "#1f6fb2"


def attention_figures(
    path: Path, weights: str | None, shelf: CorpusLookup
) -> list[dict[str, object]]:
    """Pictures of the true pairs of an attention file and of one wrong pair that ranked first.

    Args:
        path: the attention file.
        weights: digest of the checkpoint that made the model's scores, and must have made the file.
        shelf: the corpus.

    Returns:
        A figure for each pair whose image has a file, as of `attention_figure`.

    Raises:
        WorkbenchError: other weights made the file, or the corpus lacks one of its ids.
    """
    if GroupFile(path).attributes.get("checkpoint_sha256") != weights:
        raise WorkbenchError(f"{path}: made with other weights than the model's scores", REMEDY)
    pairs = shown_pairs(read_attention(path))
    pairs = [pair for pair in pairs if shelf.paths.get(pair.attention.image_id) != ""]
    ids = [(pair.attention.image_id, pair.attention.caption_id) for pair in pairs]
    shelf.check(path, [image for image, _ in ids], [caption for _, caption in ids])
    return [
        attention_figure(pair, shelf.paths[image], shelf.caption(caption).text)
        for pair, (image, caption) in zip(pairs, ids, strict=True)
    ]


def shown_pairs(pairs: Sequence[RankedPair]) -> list[RankedPair]:
    """The true pairs, and the last of the wrong ones that rank first before its caption's own."""
    shown = [pair for pair in pairs if pair.is_true]
    for wrong in [pair for pair in pairs if not pair.is_true and pair.place == 1][-1:]:
        captions = [pair.attention.caption_id for pair in shown]
        caption = wrong.attention.caption_id
        shown.insert(captions.index(caption) if caption in captions else len(shown), wrong)
    return shown


def attention_figure(pair: RankedPair, path: Path | str, caption: str) -> dict[str, object]:
    """A pair for the page.

    Args:
        pair: of an image and a caption.
        path: the image's file.
        caption: its text.

    Returns:
        `whole`: the image with its boxes in order; `weighed`: with their weights, None where all
        are alike; of each of `words` the `picture`, its `share` of the largest weight in the
        similarity (None where all are alike) and a `text` for a reader who does not see the
        picture. Pictures are data URIs.
    """
    maps = pair.attention
    image = open_rgb(path)
    words = []
    for row, (word, share) in enumerate(zip(maps.words, _word_shares(maps), strict=True)):
        picture = data_uri(draw_heatmap(image, maps, row, TILE))
        words.append(
            {"word": word, "picture": picture, "share": share, "text": _spoken_text(maps, row)}
        )
    boxes = (
        None if maps.region_weights is None else data_uri(draw_weighted_boxes(image, maps, WHOLE))
    )
    whole = data_uri(draw_ordered_boxes(image, maps, WHOLE))
    return {"pair": pair, "caption": caption, "whole": whole, "words": words, "weighed": boxes}


def draw_attention(pair: PairAttention, path: Path | str, title: str) -> Image.Image:
    """A sheet for a file of its own: the title, the image with its boxes, a picture per word.

    Args:
        pair: of an image and a caption.
        path: the image's file.
        title: at the top, broken into lines.

    Returns:
        An RGB image, SHEET_WIDTH pixels wide.
    """
    image = open_rgb(path)
    font = ImageFont.load_default(24)
    small = ImageFont.load_default(16)
    lines = textwrap.wrap(printable(title), 84)
    whole = draw_ordered_boxes(image, pair, SHEET_WHOLE)
    wholes = (
        [whole]
        if pair.region_weights is None
        else [whole, draw_weighted_boxes(image, pair, SHEET_WHOLE)]
    )
    columns = SHEET_WIDTH // (SHEET_TILE + 14)
    step = SHEET_TILE + 14
    tiles = [draw_heatmap(image, pair, row, SHEET_TILE) for row in range(len(pair.words))]
    high = max(tile.height for tile in tiles) + 50
    top = 24 + 32 * len(lines)
    below = top + (whole.height + 22) * len(wholes)
    sheet_height = below + 22 + high * -(-len(tiles) // columns)
    sheet = Image.new("RGB", (SHEET_WIDTH, sheet_height), "white")
    draw = ImageDraw.Draw(sheet)
    for number, line in enumerate(lines):
        draw.text((14, 12 + 32 * number), line, INK, font)
    for number, picture in enumerate(wholes):
        sheet.paste(picture, (14, top + (whole.height + 22) * number))
    _draw_legend(draw, pair, (28 + whole.width, top), small)
    for row, (tile, share) in enumerate(zip(tiles, _word_shares(pair), strict=True)):
        left = 14 + step * (row % columns)
        upper = below + high * (row // columns)
        sheet.paste(tile, (left, upper))
        draw.text((left, upper + tile.height + 4), printable(pair.words[row]), INK, small)
        if share is not None:
            bar = (left, upper + tile.height + 28, left + share * tile.width, upper + high - 16)
            draw.rectangle(bar, fill=BAR)
    return sheet


def attention_heat(
    weights: npt.NDArray[np.float32],
    boxes: npt.NDArray[np.float32],
    size: tuple[int, int],
    shown: tuple[int, int],
) -> npt.NDArray[np.float32]:
    """Where regions are attended to: sums of the weights of the regions that cover a pixel, over
    the largest.

    Args:
        weights: (R,) of the regions.
        boxes: (R, 4) x1, y1, x2, y2 in an image of `size`.
        size: width and height of the image that the boxes lie in.
        shown: width W and height H of the result.

    Returns:
        (H, W) float32 in [0, 1]; zeros where no weight is above 0.
    """
    width, height = shown
    sums = np.zeros((height, width), np.float32)
    scaled = boxes * np.tile(np.divide(shown, size), 2)
    limits = np.stack([np.floor(scaled[:, :2]), np.ceil(scaled[:, 2:])], 1).reshape(-1, 4)
    for weight, box in zip(weights, limits.clip(0, max(shown)).astype(int), strict=True):
        left, top, right, bottom = box
        sums[top:bottom, left:right] += weight
    largest = float(sums.max(initial=0.0))
    return sums / largest if largest > 0 else sums


def draw_heatmap(image: Image.Image, pair: PairAttention, row: int, side: int) -> Image.Image:
    """The image, dark where a word does not look, its best region framed.

    Args:
        image: RGB.
        pair: of the image and a caption.
        row: of the word in the caption.
        side: pixels of the longer side of the result.

    Returns:
        An RGB image.
    """
    small = resized(image, side)
    weights = pair.weights[row]
    light = DARKEST + (1 - DARKEST) * attention_heat(weights, pair.boxes, pair.size, small.size)
    pixels = (np.asarray(small) * light[..., None]).round().astype(np.uint8)
    result = Image.fromarray(pixels)
    if weights.any():
        box = _scaled_boxes(pair, small)[int(weights.argmax())]
        _draw_frame(ImageDraw.Draw(result), box, FIRST, max(1, side // 100))
    return result


def draw_ordered_boxes(image: Image.Image, pair: PairAttention, side: int) -> Image.Image:
    """The image with all boxes; with an order, coloured and numbered by it, the first on top.

    Args:
        image: RGB.
        pair: of the image and a caption.
        side: pixels of the longer side of the result.

    Returns:
        An RGB image.
    """
    count = len(pair.boxes)
    marks = [(box, 0.0, "") for box in range(len(pair.boxes))]
    if pair.order is not None:
        places = enumerate(pair.order.tolist())
        marks = [(box, index / max(1, count - 1), str(index + 1)) for index, box in places]
    return _draw_labelled_boxes(image, pair, side, marks)


def draw_weighted_boxes(image: Image.Image, pair: PairAttention, side: int) -> Image.Image:
    """The image with all boxes, coloured and labelled by their weights in percent.

    Args:
        image: RGB.
        pair: of the image and a caption, with `region_weights`.
        side: pixels of the longer side of the result.

    Returns:
        An RGB image.
    """
    assert pair.region_weights is not None
    weights = pair.region_weights
    largest = max(float(weights.max(initial=0.0)), 1e-9)
    marks = [
        (box, 1 - float(weights[box]) / largest, f"{100 * weights[box]:.0f}")
        for box in np.argsort(-weights, kind="stable").tolist()
    ]
    return _draw_labelled_boxes(image, pair, side, marks)


def _draw_labelled_boxes(
    image: Image.Image, pair: PairAttention, side: int, marks: list[tuple[int, float, str]]
) -> Image.Image:
    """marks: number of a box, colour from FIRST (0) to LAST (1), label; the first on top."""
    small = resized(image, side)
    draw = ImageDraw.Draw(small)
    boxes = _scaled_boxes(pair, small)
    font = ImageFont.load_default(max(11, side // 24))
    for box, shade, _ in reversed(marks):
        _draw_frame(draw, boxes[box], _shade_between(shade), max(1, side // 150))
    taken: list[Point] = []
    for box, shade, label in marks:
        if label:
            left, top, right, bottom = boxes[box]
            middle = ((left + right) / 2, (top + bottom) / 2)
            step = side / 17
            taken.append(free_place(middle, taken, 1.2 * step, step))
            left, top, right, bottom = draw.textbbox(taken[-1], label, font, anchor="mm")
            colour = _shade_between(shade)
            draw.rectangle((left - 3, top - 2, right + 3, bottom + 2), fill=colour, outline="black")
            ink = "black" if sum(colour) > 380 else "white"
            draw.text(taken[-1], label, ink, font, anchor="mm")
    return small


def _draw_legend(
    draw: ImageDraw.ImageDraw, pair: PairAttention, corner: tuple[int, int], font: Font
) -> None:
    lines = [
        f"image {pair.image_id}, caption {pair.caption_id}",
        f"similarity {pair.score:.3f}",
        f"{len(pair.boxes)} regions",
    ]
    if pair.order is not None:
        lines += ["numbers: order in which the regions are read,", "yellow first, blue last"]
    if pair.region_weights is not None:
        lines += [
            "second picture: weight of each region in the",
            "similarity in percent, yellow most",
        ]
    lines += ["below: light where a word attends, framed its", "strongest region"]
    if pair.word_weights is not None:
        lines += ["bars: weight of the word in the similarity"]
    for number, line in enumerate(lines):
        draw.text((corner[0], corner[1] + 24 * number), printable(line), SOFT, font)


def _word_shares(pair: PairAttention) -> list[float] | list[None]:
    if pair.word_weights is None:
        return [None] * len(pair.words)
    return (pair.word_weights / max(float(pair.word_weights.max()), 1e-9)).tolist()


def _spoken_text(pair: PairAttention, row: int) -> str:
    weights = pair.weights[row]
    if not len(weights):
        return f"“{pair.words[row]}” has no region to attend to"
    left, top, right, bottom = pair.boxes[int(weights.argmax())].round().astype(int).tolist()
    where = f"from ({left}, {top}) to ({right}, {bottom})"
    return f"“{pair.words[row]}” attends most to the region {where}, weight {weights.max():.2f}"


def _scaled_boxes(pair: PairAttention, shown: Image.Image) -> list[list[float]]:
    boxes = pair.boxes * np.tile(np.divide(shown.size, pair.size), 2)
    return boxes.clip(0, np.tile(shown.size, 2) - 1).tolist()


def _draw_frame(
    draw: ImageDraw.ImageDraw, box: list[float], colour: tuple[int, int, int], width: int
) -> None:
    left, top, right, bottom = box
    straight = (left, top, max(left, right), max(top, bottom))
    draw.rectangle(straight, outline="black", width=width + 1)  # seen on any background
    draw.rectangle(straight, outline=colour, width=width)


def _shade_between(share: float) -> tuple[int, int, int]:
    red, green, blue = (round(a + share * (b - a)) for a, b in zip(FIRST, LAST, strict=True))
    return red, green, blue
