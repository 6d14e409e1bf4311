"""Whether a folder of a drawn layout is read as it is meant or refused: all else is a fault."""

import hashlib
import random
import shutil
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path

from pipeline.corpus.dataset.splits import split_named
from pipeline.corpus.tables import Corpus
from pipeline.runtime.errors import WorkbenchError
from tests.layouts.forms import FORMS, OFTEN, splits_beside
from tests.layouts.others import add_others
from tests.layouts.world import Layout, drawn_layout, picture
from tests.support.reader_cases import read_all

WHOLE = "whole"
REFUSED = "refused"


def write_layout(draw: random.Random, raw: Path) -> Layout:
    """Write a drawn world into an empty folder.

    Args:
        draw: What everything is drawn from.
        raw: The folder.
    """
    layout = drawn_layout(draw, raw)
    FORMS[layout.choose("form", OFTEN)](layout)
    if not layout.are_inside:
        for image in layout.images:
            layout.write(image.path, picture(image.number))
    if layout.choose("has others", (True, False)):
        add_others(layout)
    if not (layout.says_splits or layout.are_inside) and layout.choose("divided", (True, False)):
        splits_beside(layout)
    return layout


def play(draw: random.Random, folder: Path) -> tuple[str, Layout]:
    """Write a layout, and read it as `dataset: auto` does.

    Args:
        draw: What everything is drawn from.
        folder: Scratch, which is emptied before.

    Returns:
        WHOLE, REFUSED, or what is wrong with what was read; and the layout.
    """
    shutil.rmtree(folder, ignore_errors=True)
    raw = folder / "raw"
    raw.mkdir(parents=True)
    layout = write_layout(draw, raw)
    try:
        with redirect_stderr(StringIO()):
            corpus = _read(raw)
    except WorkbenchError as error:
        layout.chosen["refused"] = str(error)
        return REFUSED, layout
    return fault(layout, corpus) or WHOLE, layout


def _read(raw: Path) -> Corpus:
    """A folder as `dataset: auto` reads it; lines of words that are no sentences are asked for."""
    try:
        return read_all("auto", raw)
    except WorkbenchError as error:
        if "corpus.text_lines" not in error.hint:
            raise
    return read_all("auto", raw, text_lines="each")


def fault(layout: Layout, corpus: Corpus) -> str:
    """The first thing that a corpus has otherwise than its layout, empty if nothing."""
    images = {hashlib.sha256(picture(one.number)).hexdigest(): one for one in layout.images}
    texts = corpus.captions.groupby("image_id", sort=False)["text"].agg(list)
    seen = set()
    for row in corpus.images.itertuples():
        image = images.get(row.sha256)
        if image is None:
            return f"{row.image_id} is another file than is meant"
        seen.add(image.number)
        if texts[row.image_id] != image.captions:
            return f"{row.image_id} has {texts[row.image_id]}, and not {image.captions}"
        expected = split_named(image.split)
        is_drawn = len(layout.splits) == 2 and (expected, row.split) == ("train", "val")
        are_said = layout.says_splits or (layout.are_divided and not layout.are_inside)
        if are_said and row.split != expected and not is_drawn:
            return f"{row.image_id} is in {row.split}, and not in {expected}"
    missing = [image.name for image in layout.images if image.number not in seen]
    return f"missing: {', '.join(missing)}" if missing else ""
