"""Pictures of the analyses as PNG files: one style, and equal content in equal bytes."""

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pipeline.report.drawing import PLAIN
from pipeline.runtime.files import atomic_path

# told apart also by colour-blind readers
TRUE = "#0a5fa5"
OTHER = "#c8501e"
FAINT = "#8a8a8a"
SERIES = (TRUE, OTHER, "#2a7d46", "#7b4fa3")
DPI = 150
DECIMALS = 6  # of places in a figure, whose sides are 1
UNDATED = {"png": {"Software": None}, "svg": {"Date": None, "Creator": None}}

_STYLE = PLAIN | {
    "svg.hashsalt": "",
    "font.family": ["DejaVu Sans", "sans-serif"],  # comes with matplotlib: no font of the machine
    "font.size": 10,
    "axes.titlesize": 11,
    "grid.color": "#dddddd",
    "lines.linewidth": 1.8,
    "figure.facecolor": "white",
}


@contextmanager
def picture(path: Path, width: float, height: float) -> Iterator[Figure]:
    """A figure in the style of the analyses, written atomically when the context closes.

    Args:
        path: .png or .svg; equal content gives equal bytes.
        width: inches.
        height: inches.

    Yields:
        The figure, still empty.
    """
    with matplotlib.rc_context(rc={**matplotlib.rcParamsDefault, **_STYLE, "backend": "agg"}):
        drawn = Figure(figsize=(width, height))
        yield drawn
        kind = path.suffix[1:]
        _fix_layout(drawn, kind)
        with atomic_path(path) as temporary:
            drawn.savefig(temporary, format=kind, dpi=DPI, metadata=UNDATED[kind])


def _fix_layout(drawn: Figure, kind: str) -> None:
    """Lay a figure out, and round where its axes are. The solver of the layout takes its unknowns
    in the order of their addresses, so the last bits differ from process to process, and an SVG has
    names that are made from them."""
    drawn.savefig(io.BytesIO(), format=kind, dpi=DPI)  # each format measures text in its own way
    drawn.set_layout_engine("none")
    for axes in drawn.axes:
        left, bottom, width, height = (round(side, DECIMALS) for side in axes.get_position().bounds)
        axes.set_position((left, bottom, width, height))


def panels(drawn: Figure, count: int, columns: int = 3, **shared: Any) -> Sequence[Axes]:
    """Axes in rows; what is left of the last row stays empty.

    Args:
        drawn: the figure.
        count: of the axes.
        columns: of a row at most.
        shared: options of `Figure.subplots`, such as sharex.

    Returns:
        `count` axes.
    """
    grid = drawn.subplots(-(-count // columns), min(count, columns), squeeze=False, **shared)
    for axes in grid.ravel()[count:]:
        axes.set_visible(False)
    return list(grid.ravel()[:count])
