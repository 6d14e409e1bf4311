"""The table and the picture of what `benchmarks.scale` measured, for docs/scale.md.

`python -m benchmarks.scale_page FOLDER/scale.tsv docs/stages.png` prints the table and writes the
picture.
"""

import csv
import sys
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

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
        slopes = [(last[n] - first[n]) / (more - less) for n in range(3)]
        cells = [f"`{stage}`", *(f"{own[size][0]:.1f}" for size in sizes), f"{1e3 * slopes[0]:.1f}"]
        cells += [*(f"{own[size][1] / 1e6:.0f}" for size in sizes), f"{slopes[1] / 1e3:.1f}"]
        lines.append([*cells, f"{slopes[2] / 1e3:.2f}"])
    sums = [f"{sum(own[size][0] for own in figures.values()):.0f}" for size in sizes]
    lines.append(["all", *sums, *[""] * (len(columns) - 1 - len(sums))])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def draw(figures: Figures, path: Path) -> None:
    """Seconds and memory against the number of images, both axes logarithmic."""
    picture = Figure((11, 5), layout="constrained")
    time, memory = picture.subplots(1, 2)
    for number, stage in enumerate(DRAWN):
        sizes, values = zip(*sorted(figures[stage].items()), strict=True)
        line, marker = ("-", "o") if number < len(DRAWN) // 2 else ("--", "s")
        style: dict[str, Any] = {"color": f"C{number % 6}", "linestyle": line, "marker": marker}
        style |= {"markersize": 4, "linewidth": 1.4}
        time.plot(sizes, [value[0] for value in values], label=stage, **style)
        memory.plot(sizes, [value[1] / 1e6 for value in values], **style)
    time.set_ylabel("processor seconds")
    memory.set_ylabel("peak resident memory, MB")
    for axes in (time, memory):
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("images of the corpus")
        axes.grid(alpha=0.3)
    memory.set_ylim(50, 5_000)
    picture.legend(loc="outside right upper", fontsize=8, frameon=False)
    picture.savefig(path, dpi=100)


if __name__ == "__main__":
    measured = read(Path(sys.argv[1]))
    print(table(measured))
    draw(measured, Path(sys.argv[2]))
