"""Captions with their discriminative words marked, as figure 11 of Zheng et al. 2017 shows them."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.offsetbox import AnchoredOffsetbox, HPacker, TextArea, VPacker

from vse_workbench.analysis.discriminative import TOP
from vse_workbench.analysis.drawing import FAINT, OTHER, picture

LINE = 88  # characters of a line
MARKED = {"color": OTHER, "weight": "bold"}

Piece = tuple[str, bool]  # a word and whether it is marked


def draw_examples(path: Path, captions: pd.DataFrame, drops: pd.DataFrame) -> None:
    """Draw captions as their words, those of the three largest drops bold and coloured."""
    rows: list[tuple[list[Piece], dict[str, Any]]] = [
        ([(f"Marked: the {TOP} words without which the score with the image drops most", True)], {})
    ]
    for pieces, score in example_lines(captions, drops):
        rows.append(([(f"score {score:.3f}", False)], {"color": FAINT, "size": 8}))
        rows += [(line, {}) for line in wrapped(pieces)]
    with picture(path, 8.6, 0.3 + 0.2 * len(rows)) as drawn:
        # made inside, because a text takes its style when it is made
        lines: list[Artist] = []
        for pieces, style in rows:
            areas: list[Artist] = [
                TextArea(word, textprops=MARKED if marked else style) for word, marked in pieces
            ]
            lines.append(HPacker(children=areas, pad=0, sep=5))
        box = VPacker(children=lines, pad=0, sep=4, align="left")
        axes = drawn.subplots()
        axes.axis("off")
        axes.add_artist(AnchoredOffsetbox("upper left", child=box, pad=0, frameon=False))


def example_lines(
    captions: pd.DataFrame, drops: pd.DataFrame
) -> Iterator[tuple[list[Piece], float]]:
    """The words of every caption, each with whether it is marked, and the caption's score."""
    for name, words in zip(captions["caption_id"], captions["tokens"], strict=True):
        rows = drops[drops["caption_id"] == name]
        marked = set(rows["position"][(rows["place"] <= TOP) & (rows["drop"] > 0)])
        yield [(word, place in marked) for place, word in enumerate(words)], rows["score"].iloc[0]


def wrapped(pieces: Sequence[Piece], width: int = LINE) -> Iterator[list[Piece]]:
    """The words of a caption in lines of at most `width` characters; longer words stand alone."""
    line: list[Piece] = []
    for word, marked in pieces:
        if line and sum(len(other) + 1 for other, _ in line) + len(word) > width:
            yield line
            line = []
        line.append((word, marked))
    if line:
        yield line
