"""Renews what the documents show of a finished run: README's table, and the pictures.

    python docs/tools/from_run.py

Run it in the repository's root after `dvc repro`. The pictures of the report and of the server need
Chromium and its driver.
"""

import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests/support")]

from browsers import browser_or_skip  # noqa: E402
from scene_reading import is_true  # noqa: E402

from models.attention.pictures import open_attention  # noqa: E402
from pipeline.corpus.images import open_rgb  # noqa: E402
from pipeline.evaluation.comparison import (  # noqa: E402
    NAIVE,
    TIE,
    Result,
    interval_text,
    read_results,
    shown,
)
from pipeline.evaluation.standing import behind_first  # noqa: E402
from pipeline.features.checkpoint import read_checkpoint  # noqa: E402
from pipeline.features.data import Inputs  # noqa: E402
from pipeline.report.attention import draw_heatmap  # noqa: E402
from pipeline.runtime.graph import stage_items, stage_paths  # noqa: E402
from pipeline.runtime.repeatable import pick_device  # noqa: E402
from vse_workbench.search.searcher import Question, Searcher  # noqa: E402

MODEL = "scan"
QUERY, CAPTION = "a purple cross left of a tiny yellow box", "test_00061.jpg#2"
PHRASE, IMAGE = "a big red star", "test_00011.jpg"
SHOWN = 6
OTHER = "inverted_softmax"
BEGIN, END = "<!-- results -->\n", "<!-- /results -->\n"
RIGHT, WRONG = "#1a7f37", "#b42318"


def results_table(results: list[Result]) -> str:
    """Markdown: a model a row, the largest rsum first; below them chance. A row that cannot be told
    from the first has the sign of report/compare.md behind its name."""
    behind = behind_first(results)
    head = ["model", "rsum", "95 % interval", "image to text R@1", "text to image R@1"]
    lines = [f"| {' | '.join([*head, 'rsum, inverted softmax'])} |", "|---|--:|---|--:|--:|--:|"]
    for result in sorted(results, key=lambda each: -each.criteria[NAIVE]["rsum"]):
        figures, limits = result.criteria[NAIVE], result.record.intervals[NAIVE]["rsum"]
        cells = [shown(figures["rsum"]), interval_text((limits[0], limits[1]))]
        cells += [shown(figures[side]["r1"]) for side in ("i2t", "t2i")]
        cells.append(shown(result.criteria[OTHER]["rsum"]) if OTHER in result.criteria else "")
        is_tied = result.name in behind and behind[result.name].tied
        lines.append(f"| `{result.name}`{TIE if is_tied else ''} | {' | '.join(cells)} |")
    chance = results[0].record.chance
    cells = [shown(chance["rsum"]), "", *(shown(chance[side]["r1"]) for side in ("i2t", "t2i"))]
    return "\n".join([*lines, f"| chance | {' | '.join(cells)} | |"]) + "\n"


def write_table() -> None:
    stages = "evaluate", "evaluate_average", "evaluate_reranked"
    names = [name for stage in stages for name in stage_items(stage)]
    metrics = [Path(f"metrics/{name}.json") for name in names]
    table = results_table(read_results(metrics, [Path(f"data/ranks/{n}.h5") for n in names]))
    readme = ROOT / "README.md"
    before, _, rest = readme.read_text().partition(BEGIN)
    readme.write_text(before + BEGIN + "\n" + table + "\n" + END + rest.partition(END)[2])


def things_of(image: str) -> list[dict]:
    """The objects of an image, as tests/support/scene_reading.py takes them."""
    boxes = pd.read_parquet("data/corpus/boxes.parquet")
    rows = boxes[boxes["image_id"] == image].to_dict("records")
    kinds = ("colour", "size", "texture")
    return [row | dict(zip(kinds, row["attributes"], strict=True)) for row in rows]


def draw_search(target: Path) -> None:
    """What the model finds, right ones marked, beside what it looks at for each word."""
    device = pick_device("cpu")
    hits = Searcher(MODEL, device).of_text(QUERY, Question(top=SHOWN)).hits
    marks = [is_true(QUERY.capitalize() + ".", things_of(hit.name)) for hit in hits]
    assert marks[0], f"{QUERY}: {hits[0].name} is wrong"
    files = stage_paths("score", ("images", "captions", "features", "text", "checkpoint"), MODEL)
    checkpoint, inputs = read_checkpoint(files.pop("checkpoint"), MODEL), Inputs(**files)
    own = CAPTION.partition("#")[0]
    pair = open_attention(MODEL, checkpoint, inputs, device, "test")(own, CAPTION)
    image = open_rgb(pd.read_parquet(inputs.images).set_index("image_id")["path"][own])

    plt.rcParams["font.family"] = "DejaVu Sans"
    figure = plt.figure(figsize=(16, 5.4), facecolor="white")
    left, right = figure.subfigures(1, 2, width_ratios=[3, 5], wspace=0.02)
    left.suptitle(f"“{QUERY}”", fontsize=17, y=0.975)
    right.suptitle(f"where {MODEL} looks for each word", fontsize=17, y=0.975)
    for axis, hit, is_right in zip(left.subplots(2, 3).flat, hits, marks, strict=True):
        axis.imshow(Image.open(hit.path).resize((256, 256), Image.Resampling.LANCZOS))
        colour, sign = (RIGHT, "✓ right") if is_right else (WRONG, "✗ wrong")
        axis.set(xticks=[], yticks=[])
        axis.set_xlabel(f"{hit.rank}   {sign}", color=colour, fontsize=15)
        for edge in axis.spines.values():
            edge.set(color=colour, linewidth=3, linestyle="-" if is_right else "--")
    for row, axis in enumerate(right.subplots(2, -(-len(pair.words) // 2)).flat):
        axis.axis("off")
        if row < len(pair.words):
            axis.imshow(draw_heatmap(image, pair, row, 256))
            axis.set_title(pair.words[row], fontsize=16, y=-0.2)
    for part in (left, right):
        part.subplots_adjust(left=0.02, right=0.98, top=0.91, bottom=0.09, wspace=0.06, hspace=0.24)
    figure.savefig(target, dpi=100)
    Image.open(target).convert("RGB").save(target, optimize=True)


@contextmanager
def served():
    """The address of a server of these models."""
    command = [sys.executable, "-m", "vse_workbench", "serve", MODEL, "--port", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        yield next(line for line in process.stderr if line.startswith("http")).split()[0]
    finally:
        process.terminate()
        process.wait()


def photograph(driver, address: str, target: Path) -> None:
    driver.set_window_size(1280, 900)
    driver.execute_cdp_cmd("Emulation.setScrollbarsHidden", {"hidden": True})
    driver.get(address)
    time.sleep(3)
    driver.save_screenshot(str(target))
    Image.open(target).convert("RGB").save(target, optimize=True)


def main() -> None:
    docs = ROOT / "docs"
    write_table()
    draw_search(docs / "search.png")
    vse = [sys.executable, "-m", "vse_workbench"]
    for words in (
        ["attention", MODEL, "--caption", CAPTION, "--output", docs / "attention.png"],
        ["localise", PHRASE, "--image", IMAGE, "--output", docs / "phrases.png"],
        ["inspect", "data/features/regions.h5", "--id", IMAGE, "--picture", docs / "regions.png"],
    ):
        subprocess.run([*vse, *words], check=True)
    driver = browser_or_skip()
    try:
        photograph(driver, (ROOT / "report/index.html").as_uri(), docs / "report.png")
        with served() as address:
            query = QUERY.replace(" ", "+")
            photograph(driver, address + f"?model={MODEL}&text={query}", docs / "serve.png")
    finally:
        driver.quit()


if __name__ == "__main__":
    main()
