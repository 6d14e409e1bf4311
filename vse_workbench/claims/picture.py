"""docs/claims.svg: the difference that a paper publishes beside the one measured here."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.ticker import FixedLocator, NullLocator

from vse_workbench.analysis.drawing import SERIES, picture
from vse_workbench.claims.judgement import Judgement
from vse_workbench.claims.ledger import Ledger

MARKS = ("o", "s", "^", "v")  # of datasets, beside their colours
LINEAR = 3  # points to each side of 0; the scale is logarithmic beyond
TICKS = {0.0: "0"} | {s * v: f"{s * v:+g}" for v in (3, 10, 30, 100, 300) for s in (-1, 1)}
DECIDED = ("holds", "reversed")  # their marks are filled


def draw_claims(path: Path, ledger: Ledger, cells: Sequence[Judgement]) -> None:
    """Draw a panel for each paper, a row for each claim: the paper's difference as a diamond, the
    measured ones with their intervals.

    Args:
        path: the picture, .svg.
        ledger: the claims.
        cells: those that have an interval, at least one.
    """
    titles = {cell.dataset: ledger.datasets[cell.dataset].title for cell in cells}
    papers: dict[str, dict[str, list[Judgement]]] = {}
    for cell in cells:
        papers.setdefault(cell.claim.paper, {}).setdefault(cell.name, []).append(cell)
    heights = [len(claims) + 1.5 for claims in papers.values()]
    with picture(path, 7.2, 1.1 + 0.2 * sum(heights)) as drawn:
        grid = drawn.subplots(len(papers), sharex=True, height_ratios=heights, squeeze=False)[:, 0]
        for axes, (paper, claims) in zip(grid, papers.items(), strict=True):
            for row, tried in enumerate(claims.values()):
                if tried[0].published is not None:
                    axes.plot(tried[0].published, row, "D", color="black", fillstyle="none")
                for cell in tried:
                    effect = cell.found
                    assert effect is not None
                    number = list(titles).index(cell.dataset)
                    at = row + 0.25 * (number - (len(titles) - 1) / 2)
                    look = {"color": SERIES[number % len(SERIES)], "markersize": 4}
                    axes.plot((effect.low, effect.high), (at, at), linewidth=1.4, **look)
                    inner = None if cell.word in DECIDED else "white"
                    axes.plot(effect.mean, at, MARKS[number % 4], markerfacecolor=inner, **look)
            axes.set_title(paper, loc="left")
            axes.set_yticks(range(len(claims)), list(claims))
            axes.set_ylim(len(claims) - 0.4, -0.6)
            axes.tick_params("y", length=0)
            axes.grid(visible=False, axis="y")
            axes.spines["left"].set_visible(False)
            axes.axvline(0, color="#333333", linewidth=0.8)
            axes.set_xscale("symlog", linthresh=LINEAR, linscale=0.6)
            axes.xaxis.set_major_locator(FixedLocator(list(TICKS)))
            axes.xaxis.set_major_formatter(lambda value, _: TICKS[value])
            axes.xaxis.set_minor_locator(NullLocator())
        label = f"first setting minus second, points of the measure (logarithmic beyond {LINEAR})"
        grid[-1].set_xlabel(label)
        for number, title in enumerate(titles.values()):
            shade = SERIES[number % len(SERIES)]
            grid[0].plot([], [], MARKS[number % 4], color=shade, label=title)
        grid[0].plot([], [], "D", color="black", fillstyle="none", label="published")
        grid[0].plot([], [], "o", color="black", label="filled: holds or reversed")
        drawn.legend(loc="outside upper left", ncols=4, frameon=False)
