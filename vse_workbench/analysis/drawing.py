"""Pictures of the analyses as PNG files: one style, and equal content in equal bytes."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pipeline.report.drawing import PLAIN, fix_layout
from pipeline.runtime.files import atomic_path

# told apart also by colour-blind readers
TRUE = "#0a5fa5"
OTHER = "#c8501e"
FAINT = "#8a8a8a"
SERIES = (TRUE, OTHER, "#2a7d46", "#7b4fa3")
DPI = 150
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
        fix_layout(drawn, format=kind, dpi=DPI)
        with atomic_path(path) as temporary:
            drawn.savefig(temporary, format=kind, dpi=DPI, metadata=UNDATED[kind])


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
