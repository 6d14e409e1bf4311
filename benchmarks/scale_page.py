"""The table and the picture of what `benchmarks.scale` measured, for docs/notes/scale.md.

`python -m benchmarks.scale_page FOLDER/scale.tsv docs/scale.png` prints the table and writes the
picture.
"""

import csv
import io
import sys
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter
from PIL import Image

# Stages that are drawn: those that cost most, and those whose shape is worth a look.
DRAWN = (
    "prepare_corpus",
    "extract_image_features",
    "extract_region_features",
    "extract_proposals",
    "encode_sentences",
    "train@dual_path",
    "train@scan",
    "train_phrases@phrase_two_branch",
    "score@dp_rnn",
    "score@scan",
    "evaluate@scan",
    "compare",
)
UNITS = (1e-3, 1e3, 1e3)  # of what an image costs: ms, kB at the peak, kB written
Figures = dict[str, dict[int, tuple[float, int, int]]]


def read(path: Path) -> Figures:
    """By stage and number of images: seconds, bytes at the peak, bytes written; the last run's."""
    found: Figures = {}
    with open(path, encoding="utf-8", newline="") as file:
        for line in csv.DictReader(file, delimiter="\t"):
            own = float(line["seconds"]), int(line["peak"]), int(line["written"])
            found.setdefault(line["stage"], {})[int(line["images"])] = own
    return found


def table(figures: Figures) -> str:
    """Markdown: a row a stage, and what each image costs between the last two sizes."""
    sizes = sorted(next(iter(figures.values())))
    less, more = sizes[-2:]
    heads = [f"{size:,}" for size in sizes]
    columns = ["stage", *(f"s, {head}" for head in heads), "ms an image"]
    columns += [*(f"MB, {head}" for head in heads), "kB an image", "kB written an image"]
    lines = [columns, ["---", *["---:"] * (len(columns) - 1)]]
    for stage, own in figures.items():
        first, last = own[less], own[more]
        slopes = [(last[n] - first[n]) / (more - less) / unit for n, unit in enumerate(UNITS)]
        told = [f"{round(value, 2 if n == 2 else 1) + 0.0:g}" for n, value in enumerate(slopes)]
        cells = [f"`{stage}`", *(f"{own[size][0]:.1f}" for size in sizes), told[0]]
        cells += [*(f"{own[size][1] / 1e6:.0f}" for size in sizes), told[1]]
        lines.append([*cells, told[2]])
    sums = [f"{sum(own[size][0] for own in figures.values()):.0f}" for size in sizes]
    lines.append(["all", *sums, *[""] * (len(columns) - 1 - len(sums))])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def draw(figures: Figures, path: Path) -> None:
    """Seconds and memory against the number of images, and how far memory grew; logarithmic."""
    picture = Figure((13, 4.5), layout="constrained")
    panels = picture.subplots(1, 3)
    for number, stage in enumerate(DRAWN):
        line, marker = ("-", "o") if number < len(DRAWN) // 2 else ("--", "s")
        style: dict[str, Any] = {"color": f"C{number % 6}", "linestyle": line, "marker": marker}
        style |= {"markersize": 4, "linewidth": 1.4}
        sizes, values = zip(*sorted(figures[stage].items()), strict=True)
        memory = [value[1] / 1e6 for value in values]
        panels[0].plot(sizes, [value[0] for value in values], label=stage, **style)
        panels[1].plot(sizes, memory, **style)
        panels[2].plot(sizes[1:], [max(1, value - memory[0]) for value in memory[1:]], **style)
    # what is less than 1 MB, or less than nothing, is drawn at 1 MB
    titles = ("processor seconds", "peak memory, MB", f"more than at {sizes[0]} images, MB")
    limits = ((1, 100), (100, 2_000), (0.9, 500))
    for axes, title, ends in zip(panels, titles, limits, strict=True):
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_title(title, fontsize=10)
        axes.set_ylim(*ends)
        axes.set_xlim(sizes[0] / 1.2, sizes[-1] * 1.2)
        axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.set_xlabel("images of the corpus")
        axes.grid(alpha=0.3)
    picture.legend(loc="outside right upper", fontsize=8, frameon=False)
    content = io.BytesIO()
    picture.savefig(content, dpi=90)
    Image.open(content).convert("RGB").quantize(64).save(path, optimize=True)  # a third of the size


if __name__ == "__main__":
    measured = read(Path(sys.argv[1]))
    print(table(measured))
    draw(measured, Path(sys.argv[2]))
