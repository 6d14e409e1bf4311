"""Matplotlib figures as SVG in the page's font and colours; the same figure gives the same bytes.
Colours are drawn as placeholders, which become CSS variables of the page."""

import io
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib
from markupsafe import Markup
from matplotlib.figure import Figure

from pipeline.report.colours import COLOURS

# A first start reports that fonts are being looked up; the figures' texts use the page's font.
logging.getLogger("matplotlib").setLevel(logging.ERROR)

TEXT = "#010101"
RULE = "#010102"
TRUE = "#010103"
OTHER = "#010104"
DASHES = ((), (7, 2), (7, 2, 2, 2), (2, 2))  # points
DECIMALS = 6  # of the place of axes, as a share of the figure
# points, which are the units of the SVG
WIDTH = 380
HEIGHT = 240

PLAIN: dict[Any, Any] = {  # of all pictures, those of analyses and claims, too
    "svg.fonttype": "none",
    "text.parse_math": False,  # words and names of models may hold dollar signs
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.constrained_layout.use": True,
}
_STYLE = PLAIN | {
    "text.color": TEXT,
    "axes.labelcolor": TEXT,
    "axes.edgecolor": RULE,
    "grid.color": RULE,
    "xtick.color": RULE,
    "ytick.color": RULE,
    "xtick.labelcolor": TEXT,
    "ytick.labelcolor": TEXT,
    "font.size": 11,
    "lines.linewidth": 2,
    "lines.scale_dashes": False,
}


def colour(series: int) -> str:
    """The placeholder of the colour of the model number `series`, from 0 on."""
    return f"#0102{series % len(COLOURS):02x}"


def dashes(series: int) -> tuple[int, ...]:
    """The dash pattern of a model's line; with the colour it tells 36 models apart."""
    return DASHES[series % len(DASHES)]


def css(placeholder: str) -> str:
    """The CSS value that takes the place of a placeholder colour."""
    named = {TEXT: "currentColor", RULE: "var(--rule)", TRUE: "var(--true)", OTHER: "var(--false)"}
    return named.get(placeholder) or f"var(--series-{int(placeholder[-2:], 16)})"


@contextmanager
def figure(width: int = WIDTH, height: int = HEIGHT) -> Iterator[Figure]:
    """A figure in the style of the page while the context is open. Call `as_svg` inside: some of
    the style is only read when the figure is written.

    Args:
        width: points, which are the units of the SVG.
        height: points.

    Yields:
        The figure, still empty.
    """
    with matplotlib.rc_context(_STYLE):
        yield Figure(figsize=(width / 72, height / 72))


def as_svg(drawn: Figure, name: str, label: str) -> Markup:
    """A figure as an SVG element for HTML; equal figures give equal text.

    Args:
        drawn: the figure.
        name: ids inside are made from it: no other figure of the page has it.
        label: what is read aloud in place of the figure.

    Returns:
        The element; placeholders of colours are CSS values.
    """
    buffer = io.StringIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    with matplotlib.rc_context({"svg.hashsalt": name}):
        fix_layout(drawn, format="svg")
        drawn.savefig(buffer, format="svg", transparent=True, metadata=nothing)
    text = buffer.getvalue()
    inner = text[text.index(">", text.index("<svg")) + 1 :]
    inner = re.sub(r"<style.*?</style>", "", inner, flags=re.DOTALL)
    inner = re.sub(r'<g id="[^"]*"', "<g", inner).replace("xlink:href", "href")
    inner = re.sub(r"; font-family: [^;\"]*|font-family: [^;\"]*; ", "", inner)
    inner = re.sub(r"#010[12][0-9a-f]{2}\b", lambda match: css(match[0]), inner)
    inner = re.sub(r"\s*\n\s*", " ", inner).replace("> <", ">\n<")
    width, height = (side * 72 for side in drawn.get_size_inches())
    head = Markup('<svg role="img" aria-label="{}" viewBox="0 0 {:g} {:g}">').format(
        label, width, height
    )
    return head + Markup(inner.strip())


def fix_layout(drawn: Figure, **options: Any) -> None:
    """Lay a figure out, and round where its axes are. The solver of the layout takes its unknowns
    in the order of their addresses, so the last bits differ from process to process, and an SVG has
    names that are made from them.

    Args:
        drawn: the figure; its layout stays as it is then.
        options: of `savefig`, the format for one: each measures text in its own way.
    """
    drawn.savefig(io.BytesIO(), **options)
    drawn.set_layout_engine("none")
    for axes in drawn.axes:
        left, bottom, width, height = (round(side, DECIMALS) for side in axes.get_position().bounds)
        axes.set_position((left, bottom, width, height))
