"""The figures of the report: training curves, losses, and distributions of scores."""

from collections.abc import Mapping, Sequence

import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from pipeline.evaluation.comparison import TableRow, interval_text
from pipeline.evaluation.findings import Separation
from pipeline.report.curve_files import Curve
from pipeline.report.drawing import OTHER, TRUE, WIDTH, as_svg, colour, dashes, figure

# points, of a chart of one model
SMALL_WIDTH = 300
SMALL_HEIGHT = 180


def interval_figure(rows: Sequence[TableRow], numbers: Mapping[str, int]) -> Markup:
    """rsum of each model with its interval, a line per row, the first on top.

    Args:
        rows: of the table, with rsum.
        numbers: of the models, for their colours.

    Returns:
        An SVG element.
    """
    spoken = []
    heights = range(len(rows), 0, -1)
    with figure(WIDTH, 46 + 21 * len(rows)) as drawn:
        axes = drawn.subplots()
        for height, row in zip(heights, rows, strict=True):
            rsum = row.figures["rsum"]
            shade = colour(numbers[row.model])
            if row.interval:
                axes.plot(row.interval, [height, height], color=shade, solid_capstyle="butt")
            axes.plot(rsum, height, "o", color=shade, markersize=7)
            axes.annotate(
                f"{rsum:.1f}",
                xy=(1, height),
                xytext=(6, 0),
                xycoords=("axes fraction", "data"),
                textcoords="offset points",
                va="center",
            )
            spoken.append(f"{row.label} {rsum:.1f}, {interval_text(row.interval)}")
        axes.set_yticks(list(heights), [row.label for row in rows])
        axes.set_ylim(0.4, len(rows) + 0.6)
        axes.tick_params("y", length=0)
        axes.grid(visible=False, axis="y")
        axes.spines["left"].set_visible(False)
        axes.set_xlabel("rsum")
        return as_svg(drawn, "intervals", f"rsum and its interval: {'; '.join(spoken)}")


def rsum_figure(curves: Mapping[str, Curve], series: Mapping[str, int]) -> Markup:
    """Validation rsum by epoch, a dot on the epoch that was kept.

    Args:
        curves: by model, of two epochs or more.
        series: numbers of the models, for their colours.

    Returns:
        An SVG element.
    """
    bests = (f"{name} {c.best[1]:.1f} at epoch {c.best[0]:g}" for name, c in curves.items())
    with figure() as drawn:
        axes = drawn.subplots()
        for name, curve in curves.items():
            number = series[name]
            epochs, rsum = curve.line(curve.rsum)
            _plot_line(axes, epochs, rsum, number)
            axes.plot(*curve.best, "o", color=colour(number), markersize=7)
        for name, curve in curves.items():
            _plot_turns(axes, curve, series[name], f"{name}: ", 0)
        axes.set_xlim(left=min(curve.epochs[0] for curve in curves.values()) - 0.5)
        axes.set_ylabel("validation rsum")
        return as_svg(drawn, "rsum", f"Validation rsum by epoch; best: {', '.join(bests)}")


def loss_figure(curve: Curve, name: str, number: int) -> Markup:
    """Training loss of one model by epoch, logarithmic where it is positive.

    Args:
        curve: of its training.
        name: of the model.
        number: of the model, for its colour.

    Returns:
        An SVG element.
    """
    curve = curve.trained
    with figure(SMALL_WIDTH, SMALL_HEIGHT) as drawn:
        axes = drawn.subplots()
        epochs, loss = curve.line(curve.loss)
        _plot_line(axes, epochs, loss, number)
        _plot_turns(axes, curve, number, "", 1)
        if min(curve.loss) > 0:
            logarithmic(axes)
        label = (
            f"Training loss of {name}: from {curve.loss[0]:g} in epoch {curve.epochs[0]:g} to "
            f"{curve.loss[-1]:g} in epoch {curve.epochs[-1]:g}"
        )
        return as_svg(drawn, f"loss {number}", label)


def separation_figure(separated: Separation, name: str, number: int) -> Markup:
    """P and Q of one model as densities over the scores: true pairs solid, others dashed.

    Args:
        separated: the two histograms.
        name: of the model.
        number: of the model, for the ids in the element.

    Returns:
        An SVG element.
    """
    edges = np.linspace(separated.low, separated.high, len(separated.true) + 1)
    true, others = separated.densities
    with figure(SMALL_WIDTH, SMALL_HEIGHT) as drawn:
        axes = drawn.subplots()
        for density, shade, style in ((others, OTHER, (0, (4, 2))), (true, TRUE, "-")):
            axes.stairs(density, edges, fill=True, color=shade, alpha=0.3, linewidth=0)
            axes.stairs(density, edges, color=shade, linestyle=style, linewidth=1.6, baseline=None)
        axes.set_xlim(separated.low, separated.high)
        axes.set_ylim(bottom=0)
        axes.set_xlabel("score")
        axes.xaxis.set_major_locator(MaxNLocator(4))
        axes.set_yticks([])  # densities: only their shape and overlap mean something
        axes.spines["left"].set_visible(False)
        label = f"Scores of true and of other pairs under {name}; overlap {separated.overlap:.3f}"
        return as_svg(drawn, f"separation {number}", label)


def _plot_line(axes: Axes, x: list[float], y: list[float], number: int) -> None:
    axes.plot(x, y, color=colour(number), linestyle=(0, dashes(number)) if dashes(number) else "-")


def _plot_turns(axes: Axes, curve: Curve, number: int, whose: str, height: int) -> None:
    """The axis of epochs, and a dotted line with its name where the model's next phase begins.
    height: of the name, 0 at the bottom (rsum starts low), 1 at the top (losses end low)."""
    axes.set_xlabel("epoch")
    axes.set_xlim(left=0.5)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    for epoch, phase in curve.turns.items():
        axes.axvline(epoch - 0.5, color=colour(number), linestyle=":", linewidth=1)
        axes.annotate(
            whose + phase,
            xy=(epoch - 0.5, height),
            xytext=(-2, 4 - 8 * height),
            xycoords=("data", "axes fraction"),
            textcoords="offset points",
            fontsize=8,
            rotation=90,
            ha="right",
            va=("bottom", "top")[height],
        )


def logarithmic(axes: Axes) -> None:
    """An axis of values above 0 whose ticks are plain numbers."""
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=8))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
