"""The pictures of the analyses, each from the numbers that lie beside it as a table."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from pipeline.evaluation.correlation import Correlation
from pipeline.evaluation.findings import Separation
from pipeline.report.curve_files import Curve
from pipeline.report.figures import logarithmic
from vse_workbench.analysis.drawing import FAINT, OTHER, SERIES, TRUE, panels, picture

WIDTH = 3.6  # inches of a panel


def draw_separation(path: Path, found: Mapping[str, Separation]) -> None:
    """P and Q of every model, one panel each, their overlap S in the title.

    Args:
        path: the picture.
        found: by label.
    """
    columns = min(len(found), 3)
    with picture(path, WIDTH * columns, 0.5 + 2.6 * -(-len(found) // 3)) as drawn:
        for axes, (label, separated) in zip(panels(drawn, len(found)), found.items(), strict=True):
            edges = np.linspace(separated.low, separated.high, len(separated.true) + 1)
            true, others = separated.densities
            kinds = (others, OTHER, "other pairs, Q"), (true, TRUE, "true pairs, P")
            for density, shade, name in kinds:
                axes.stairs(density, edges, fill=True, color=shade, alpha=0.25, linewidth=0)
                axes.stairs(density, edges, color=shade, linewidth=1.5, baseline=None, label=name)
            axes.set_title(f"{label}: S = {separated.overlap:.3f}")
            axes.set(xlabel="score", ylabel="density", xlim=(separated.low, separated.high))
            axes.set_ylim(bottom=0)
        first, *_ = drawn.axes
        handles, names = first.get_legend_handles_labels()
        drawn.legend(handles[::-1], names[::-1], loc="outside lower center", ncols=2, frameon=False)


def draw_correlations(path: Path, found: Mapping[str, Correlation]) -> None:
    """The matrix of every label, one panel each on one scale from -1 to 1.

    Args:
        path: the picture.
        found: by label, at least one.
    """
    columns = 2 if len(found) in (2, 4) else min(len(found), 3)
    with picture(path, 0.8 + WIDTH * columns, 3.7 * -(-len(found) // columns)) as drawn:
        axes_of = panels(drawn, len(found), columns)
        for axes, (label, correlation) in zip(axes_of, found.items(), strict=True):
            image = axes.imshow(correlation.matrix, cmap="RdBu_r", vmin=-1, vmax=1)
            mean = correlation.summary()["mean_absolute"]
            axes.set_title(f"{label}\nmean |r| of different images {mean:.3f}")
            axes.set(xlabel="image", ylabel="image")
            axes.grid(False)
        bar = drawn.colorbar(image, ax=list(axes_of), shrink=0.8)
        bar.set_label("Pearson correlation r")


def draw_words(path: Path, words: pd.DataFrame, least: int, most: int = 15) -> None:
    """The words with the largest and the smallest mean drops.

    Args:
        path: the picture.
        words: of `by_word`, largest mean drop first.
        least: how often a word must have been left out to be drawn.
        most: words of each side.
    """
    often = words[words["times"] >= least]
    upper = often.head(most)
    lower = often.iloc[most:].tail(most)
    sides = [("largest drops", upper, TRUE), ("smallest drops", lower, FAINT)]
    sides = [side for side in sides if len(side[1])]
    with picture(path, 4.2 * len(sides), 1.2 + 0.26 * max(len(upper), 2)) as drawn:
        title = f"What the true image's score loses without a word (left out {least}+ times)"
        drawn.suptitle(title)
        both = zip(panels(drawn, len(sides), sharex=True), sides, strict=True)
        for axes, (title, rows, shade) in both:
            error = {"linewidth": 0.8, "ecolor": "#333333"}
            places = range(len(rows))
            axes.barh(places, rows["drop"], xerr=rows["spread"], color=shade, error_kw=error)
            names = [f"{w} ({n})" for w, n in zip(rows["word"], rows["times"], strict=True)]
            axes.set_yticks(places, names)
            axes.invert_yaxis()
            axes.axvline(0, color="#333333", linewidth=0.8)
            axes.grid(axis="y", visible=False)
            axes.set(title=title, xlabel="mean drop ± standard deviation")


def draw_curve(path: Path, name: str, curve: Curve) -> None:
    """Training loss, validation rsum and, where there are any, classification errors by epoch.

    Args:
        path: the picture.
        name: of the model.
        curve: of its training.
    """
    rows = 3 if curve.errors else 2
    with picture(path, 7.0, 2.5 * rows) as drawn:
        every = drawn.subplots(rows, 1, sharex=True)
        upper, middle, *others = every
        _plot_losses(upper, curve.trained)
        epochs, rsums = curve.line(curve.rsum)
        middle.plot(epochs, rsums, "o-", markersize=3, color=FAINT)
        epoch, rsum = curve.best
        middle.plot(epoch, rsum, "o", color=TRUE, label=f"kept: epoch {epoch:g}, rsum {rsum:.1f}")
        middle.legend(loc="lower right", frameon=False)
        middle.set(ylabel="validation rsum")
        for axes in others:  # what is classified (Zheng et al. 2020, figure 8)
            for number, (label, shares) in enumerate(curve.errors.items()):
                shade = SERIES[number % len(SERIES)]
                style = ("o-", "s--")[number % 2]
                axes.plot(curve.epochs, shares, style, markersize=3, color=shade, label=label)
            axes.legend(frameon=False)
            axes.set(ylabel="classification error", ylim=(-0.03, 1.03))
        every[-1].set(xlabel="epoch")
        every[-1].xaxis.set_major_locator(MaxNLocator(integer=True))
        for axes in every:
            for epoch in curve.turns:
                axes.axvline(epoch - 0.5, color=FAINT, linestyle="--", linewidth=1)
        drawn.suptitle(f"Training of {name}")


def _plot_losses(axes: Axes, curve: Curve) -> None:
    """A line for each phase, broken where others come between: their losses are different sums."""
    for number, name in enumerate(dict.fromkeys(curve.phases)):
        losses = np.where(np.array(curve.phases) == name, curve.loss, np.nan)
        epochs, loss = curve.line(losses.tolist())
        shade = SERIES[number % len(SERIES)]
        axes.plot(epochs, loss, "o-", markersize=3, color=shade, label=name or "all epochs")
    axes.legend(title="phase", frameon=False)
    axes.set(ylabel="training loss")
    if min(curve.loss) > 0:
        logarithmic(axes)
