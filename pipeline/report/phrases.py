"""The phrases of some captions with the boxes that models find for them (figure 3 of Wang et al.
2016)."""

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image, ImageDraw

from pipeline.comparison.phrases import PhraseRow
from pipeline.corpus.images import open_rgb
from pipeline.phrases.absent import is_absent
from pipeline.phrases.found import CORRECT
from pipeline.phrases.tables import load_phrases
from pipeline.report.shelf import REMEDY
from pipeline.runtime.errors import WorkbenchError
from pipeline.storage.features import FeatureFile

SHOWN = 4  # captions of a kind
SIDE = 200  # pixels of a picture's longer side
MOST = 5  # phrases of a caption: one for each colour
QUALITY = 85

# Okabe and Ito's colours, told apart by colour-blind eyes, without their black and yellow.
COLOURS = ("#E69F00", "#56B4E9", "#009E73", "#D55E00", "#CC79A7")


@dataclass(frozen=True)
class ShownPhrase:
    """A phrase of a caption.

    Attributes:
        text: its words.
        colour: of its boxes.
        found: whether the best box of each model is right.
        best: overlap of each model's best box with the true one.
    """

    text: str
    colour: str
    found: list[bool]
    best: list[float]


@dataclass(frozen=True)
class ShownCaption:
    """An image with the phrases of one of its captions.

    Attributes:
        caption_id: in the corpus.
        text: of the caption.
        phrases: of it.
        pictures: data URIs: with the true boxes, then with those of each model.
    """

    caption_id: str
    text: str
    phrases: list[ShownPhrase]
    pictures: list[str]


@dataclass(frozen=True)
class PhraseSection:
    """What the page shows of phrases.

    Attributes:
        names: of the models.
        hits: captions all of whose phrases the best model finds.
        misses: captions of which it misses a phrase that it could have found.
    """

    names: list[str]
    hits: list[ShownCaption]
    misses: list[ShownCaption]


def phrase_section(
    rows: Sequence[PhraseRow],
    found: Sequence[Path],
    folder: Path | None,
    images: pd.DataFrame,
    captions: pd.DataFrame,
) -> PhraseSection | None:
    """Captions that the model with the largest R@1 finds all phrases of, and others; None where
    there are no models of phrases.

    Args:
        rows: of the models.
        found: file of each of them, by its stem.
        folder: of the phrases' tables.
        images: table of the corpus.
        captions: table of the corpus.

    Raises:
        WorkbenchError: files that are missing or of other phrases.
    """
    files = {path.stem: FeatureFile(path) for path in found if not is_absent(path)}
    lost = [row.name for row in rows if row.name not in files]
    if not rows or (not files and folder is None):
        return None
    if lost or folder is None:
        raise WorkbenchError(
            f"what {', '.join(lost) or 'models of phrases'} found is missing",
            "give --phrases and --found, as dvc.yaml does",
        )
    phrases = load_phrases(folder).phrases.set_index("phrase_id")
    names = [row.name for row in rows]
    read = {name: _read(files[name], phrases) for name in names}
    best = max(rows, key=lambda row: row.figures["r1"]).name
    chosen = _chosen(read[best])
    paths = dict(zip(images["image_id"], images["path"], strict=True))
    texts = dict(zip(captions["caption_id"], captions["text"], strict=True))
    hits, misses = ([_shown(one, [read[name] for name in names], paths, texts) for one in kind]
                    for kind in chosen)  # fmt: skip
    return PhraseSection(names, hits, misses)


def _read(file: FeatureFile, phrases: pd.DataFrame) -> pd.DataFrame:
    """What a model found, a row per phrase: words, caption and image, boxes, overlap and rank."""
    strange = [name for name in file.ids if name not in phrases.index]
    if strange:
        raise WorkbenchError(f"{file.path}: of other phrases, such as {strange[0]}", REMEDY)
    rows = phrases.loc[file.ids].copy()
    for name in ("boxes", "truth"):
        rows[name] = list(file.load(name))
    rows["rank"], rows["overlap"] = file.load("ranks"), file.load("overlaps")
    return rows


def _chosen(found: pd.DataFrame) -> tuple[list[str], list[str]]:
    """Captions with two or more phrases: all found, and some missed, evenly spaced among them."""
    right = found["overlap"] >= CORRECT
    groups = found.assign(right=right, missed=(found["rank"] > 0) & ~right).groupby(
        "caption_id", sort=False
    )
    table = groups.agg(count=("right", "size"), right=("right", "all"), missed=("missed", "any"))
    several = table[table["count"] >= 2]
    return _spaced(several[several["right"]]), _spaced(several[several["missed"]])


def _spaced(table: pd.DataFrame) -> list[str]:
    places = np.linspace(0, len(table) - 1, min(SHOWN, len(table))).round().astype(int)
    return [str(table.index[place]) for place in places]


def _shown(
    caption: str,
    found: Sequence[pd.DataFrame],
    paths: Mapping[str, str],
    texts: Mapping[str, str],
) -> ShownCaption:
    rows = [table[table["caption_id"] == caption][:MOST] for table in found]
    image = rows[0]["image_id"].iloc[0]
    if image not in paths or caption not in texts:
        raise WorkbenchError(f"caption {caption} of image {image} is not in the corpus", REMEDY)
    picture = open_rgb(paths[image])
    colours = COLOURS[: len(rows[0])]
    phrases = [
        ShownPhrase(
            text,
            colour,
            [bool(own["overlap"].iloc[place] >= CORRECT) for own in rows],
            [float(own["overlap"].iloc[place]) for own in rows],
        )
        for place, (text, colour) in enumerate(zip(rows[0]["text"], colours, strict=True))
    ]
    boxes = [rows[0]["truth"], *(own["boxes"] for own in rows)]
    pictures = [_as_uri(with_boxes(picture, list(own), colours, SIDE)) for own in boxes]
    return ShownCaption(caption, texts[caption], phrases, pictures)


def with_boxes(
    image: Image.Image, boxes: Sequence[np.ndarray], colours: Sequence[str], side: int
) -> Image.Image:
    """An image with boxes drawn over it, later ones over earlier ones.

    Args:
        image: as it is.
        boxes: (4,) each: x1, y1, x2, y2 in its pixels.
        colours: of the boxes.
        side: length of the longer side of the result, pixels.
    """
    scale = side / max(image.size)
    size = [max(1, round(length * scale)) for length in image.size]
    drawn = image.resize((size[0], size[1]))
    pen, width = ImageDraw.Draw(drawn), max(3, side // 130)
    for box, colour in zip(boxes, colours, strict=True):
        left, top, right, bottom = (float(edge) * scale for edge in box)
        corners = (max(0, left), max(0, top), min(size[0] - 1, right), min(size[1] - 1, bottom))
        pen.rectangle(corners, outline="white", width=width + 1)  # seen on any background
        inner = (corners[0] + 1, corners[1] + 1, corners[2] - 1, corners[3] - 1)
        if inner[0] < inner[2] and inner[1] < inner[3]:
            pen.rectangle(inner, outline=colour, width=width)
    return drawn


def _as_uri(image: Image.Image) -> str:
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=QUALITY, optimize=True)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode()
