"""The table and the picture of what `benchmarks.scale` measured, for docs/notes/scale.md.

`python -m benchmarks.scale_page FOLDER/scale.tsv docs/scale.png` prints the table and writes the
picture.
"""

import io
import sys
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure
from PIL import Image

# Stages that are drawn: those that cost most, and those whose shape is worth a look.
DRAWN = ("prepare_corpus", "extract_image_features", "extract_region_features")
DRAWN += ("extract_proposals", "encode_sentences", "train@dual_path", "train@scan")
DRAWN += (
    "train_phrases@phrase_two_branch",
    "score@dp_rnn",
    "score@scan",
    "evaluate@scan",
    "compare",
)
UNITS = {"seconds": 1e-3, "peak": 1e3, "written": 1e3}  # of what an image costs: ms, kB, kB


def read(path: Path) -> pd.DataFrame:
    """A row a stage, columns of (seconds, peak or written, number of images); the last run's."""
    rows = pd.read_csv(path, sep="\t").drop_duplicates(["stage", "images"], keep="last")
    found = rows.pivot(index="stage", columns="images", values=list(UNITS))
    return found.loc[rows["stage"].unique()]


def table(found: pd.DataFrame) -> str:
    """Markdown: a row a stage, and what each image costs between the last two sizes."""
    sizes = list(found["seconds"].columns)
    less, more = sizes[-2:]
    heads = ["stage", *(f"s, {size:,}" for size in sizes), "ms an image"]
    heads += [*(f"MB, {size:,}" for size in sizes), "kB an image", "kB written an image"]
    lines = [heads, ["---", *["---:"] * (len(heads) - 1)]]
    for stage, own in found.iterrows():
        slopes = {key: (own[key, more] - own[key, less]) / (more - less) / unit
                  for key, unit in UNITS.items()}  # fmt: skip
        cells = [f"`{stage}`", *(f"{own['seconds', size]:.1f}" for size in sizes)]
        cells += [f"{round(slopes['seconds'], 1) + 0.0:g}"]
        cells += [*(f"{own['peak', size] / 1e6:.0f}" for size in sizes)]
        cells += [f"{round(slopes['peak'], 1) + 0.0:g}", f"{round(slopes['written'], 2) + 0.0:g}"]
        lines.append(cells)
    sums = [f"{found['seconds', size].sum():.0f}" for size in sizes]
    lines.append(["all", *sums, *[""] * (len(heads) - 1 - len(sums))])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def draw(found: pd.DataFrame, path: Path) -> None:
    """Seconds and memory against the number of images, and how far memory grew; logarithmic."""
    picture = Figure((13, 4.5), layout="constrained")
    memory = found["peak"] / 1e6
    sizes = list(memory.columns)
    # what is less than 1 MB, or less than nothing, is drawn at 1 MB
    more = memory.sub(memory[sizes[0]], axis=0)[sizes[1:]].clip(lower=1)
    titles = ("processor seconds", "peak memory, MB", f"more than at {sizes[0]} images, MB")
    panels = zip(picture.subplots(1, 3), (found["seconds"], memory, more), titles, strict=True)
    for axes, values, title in panels:
        for number, stage in enumerate(DRAWN):
            style = "-o" if number < len(DRAWN) // 2 else "--s"
            own = values.loc[stage]
            axes.loglog(own.index, own, style, color=f"C{number % 6}", markersize=4, label=stage)
        axes.set_title(title, fontsize=10)
        axes.set_xlabel("images of the corpus")
        axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
        axes.grid(alpha=0.3)
    names = picture.axes[0].get_legend_handles_labels()
    picture.legend(*names, loc="outside right upper", fontsize=8, frameon=False)
    content = io.BytesIO()
    picture.savefig(content, dpi=90)
    Image.open(content).convert("RGB").quantize(64).save(path, optimize=True)  # a third of the size


if __name__ == "__main__":
    measured = read(Path(sys.argv[1]))
    print(table(measured))
    draw(measured, Path(sys.argv[2]))
