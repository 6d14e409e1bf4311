"""Phrases of captions with the boxes that models find for them (figure 3 of Wang et al. 2016)."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image, ImageDraw

from pipeline.corpus.images import open_rgb
from pipeline.evaluation.phrase_table import PhraseRow
from pipeline.features.feature_file import FeatureFile
from pipeline.phrases.absent import is_absent
from pipeline.phrases.found import CORRECT
from pipeline.phrases.tables import load_phrases
from pipeline.report.pictures import OKABE_ITO, data_uri
from pipeline.report.shelf import CorpusLookup

SHOWN = 4  # captions of a kind
SIDE = 200  # pixels of a picture's longer side
MOST = 5  # phrases of a caption: one for each colour
COLOURS = OKABE_ITO[:MOST]


def phrase_section(
    rows: Sequence[PhraseRow],
    found: Sequence[Path],
    folder: Path | None,
    shelf: CorpusLookup,
) -> dict[str, object] | None:
    """Captions that the best model by R@1 finds all phrases of (hits), and others (misses).

    Args:
        rows: results of the models of phrases.
        found: what each model found, a feature file by the model's name.
        folder: of the phrases' tables; None: there are none.
        shelf: the corpus.

    Returns:
        `names` of the models, `hits` and `misses`; None without models or phrases.
    """
    files = {path.stem: FeatureFile(path) for path in found if not is_absent(path)}
    if not rows or folder is None:
        return None
    phrases = load_phrases(folder).phrases.set_index("phrase_id")
    names = [row.name for row in rows]
    read = {name: _read_found(files[name], phrases) for name in names}
    best = max(rows, key=lambda row: row.figures["r1"]).name
    chosen = _choose_captions(read[best])
    hits, misses = (
        [_caption_for_page(caption, [*read.values()], shelf) for caption in ids] for ids in chosen
    )
    return {"names": names, "hits": hits, "misses": misses}


def _read_found(file: FeatureFile, phrases: pd.DataFrame) -> pd.DataFrame:
    """What a model found, a row per phrase: words, caption and image, boxes, overlap and rank."""
    rows = phrases.loc[file.ids].copy()
    for name in ("boxes", "truth"):
        rows[name] = list(file.load(name))
    rows["rank"] = file.load("ranks")
    rows["overlap"] = file.load("overlaps")
    return rows


def _choose_captions(rows: pd.DataFrame) -> tuple[list[str], list[str]]:
    """Captions with two or more phrases: all found, and some missed, evenly spaced among them."""
    right = rows["overlap"] >= CORRECT
    marked = rows.assign(right=right, missed=(rows["rank"] > 0) & ~right)
    groups = marked.groupby("caption_id", sort=False)
    table = groups.agg(count=("right", "size"), right=("right", "all"), missed=("missed", "any"))
    several = table[table["count"] >= 2]
    return _spaced_ids(several[several["right"]]), _spaced_ids(several[several["missed"]])


def _spaced_ids(table: pd.DataFrame) -> list[str]:
    places = np.linspace(0, len(table) - 1, min(SHOWN, len(table))).round().astype(int)
    return [str(table.index[row]) for row in places]


def _caption_for_page(
    caption: str, tables: Sequence[pd.DataFrame], shelf: CorpusLookup
) -> dict[str, object]:
    """A caption for the page. best: by model the IoU of its best box of a phrase with the true one,
    found: whether it is right; pictures: data URIs, of the true boxes, then of each model's."""
    rows = [table[table["caption_id"] == caption][:MOST] for table in tables]
    image = rows[0]["image_id"].iloc[0]
    picture = open_rgb(shelf.paths[image])
    colours = COLOURS[: len(rows[0])]
    overlaps = [table["overlap"].tolist() for table in rows]
    phrases = [
        {"text": text, "colour": colour, "found": [x >= CORRECT for x in best], "best": best}
        for text, colour, *best in zip(rows[0]["text"], colours, *overlaps, strict=True)
    ]
    boxes = [rows[0]["truth"], *(table["boxes"] for table in rows)]
    pictures = [data_uri(draw_boxes(picture, list(series), colours, SIDE), 85) for series in boxes]
    shown = {"caption_id": caption, "text": shelf.caption(caption).text}
    return shown | {"phrases": phrases, "pictures": pictures}


def draw_boxes(
    image: Image.Image, boxes: Sequence[np.ndarray], colours: Sequence[str], side: int
) -> Image.Image:
    """An image with boxes drawn over it; where boxes cover each other, each shows in stripes.

    Args:
        image: RGB.
        boxes: (4,) each: x1, y1, x2, y2 in its pixels.
        colours: of the boxes.
        side: pixels of the longer side of the result.

    Returns:
        An RGB image.
    """
    scale = side / max(image.size)
    width, height = (max(1, round(length * scale)) for length in image.size)
    drawn = image.resize((width, height))
    line = max(3, side // 130)

    def add(target: Image.Image, box: Sequence[float], colour: str) -> None:
        left, top, right, bottom = (edge * scale for edge in box)
        left = max(0.0, left)
        top = max(0.0, top)
        right = min(width - 1, right)
        bottom = min(height - 1, bottom)
        pen = ImageDraw.Draw(target)
        pen.rectangle((left, top, right, bottom), outline="white", width=line + 1)  # seen anywhere
        if left + 1 < right - 1 and top + 1 < bottom - 1:
            pen.rectangle((left + 1, top + 1, right - 1, bottom - 1), outline=colour, width=line)

    marks = [(box.tolist(), colour) for box, colour in zip(boxes, colours, strict=True)]
    for box, colour in marks:
        add(drawn, box, colour)
    dashes = np.add.outer(np.arange(height), np.arange(width)) // (3 * line) % max(1, len(boxes))
    for turn, (box, colour) in enumerate(marks):
        layer = drawn.copy()
        add(layer, box, colour)
        drawn.paste(layer, mask=Image.fromarray(np.uint8(255) * (dashes == turn)))
    return drawn
