"""Every stage of the graph at three sizes of the built-in corpus: processor seconds and memory.

`python -m benchmarks.scale FOLDER`, some quarter of an hour of a core, prints the table of
docs/notes/scale.md. Each stage is a process of its own, started once by the command of dvc.yaml, in
its order. This program loads no library: what a process has when it starts another counts in that
one's peak.
"""

import multiprocessing
import os
import shlex
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SIZES = {50: (30, 10, 10), 500: (300, 100, 100), 5_000: (3_000, 1_000, 1_000)}
STAGES = None  # all
if "BENCHMARKS_SMALL" in os.environ:  # see benchmarks.common
    SIZES, STAGES = {5: (3, 1, 1), 10: (6, 2, 2)}, 2
PHASE = {"epochs": 1, "lr": 0.002, "stop_below": 0.0, "train": ["text", "words", "image_head"]}
PHASE |= {"weights": {"ranking": 1.0, "image_instance": 1.0, "text_instance": 1.0}}
EPOCH = {"epochs": 1, "warmup_epochs": 0, "batch_size": 32}
PAIRS = EPOCH | {"batch_size": 256}  # of a phrase and its box
# Narrow networks, one epoch: what is looked for is what each more image costs, not what is learnt.
NARROW: dict[str, Any] = {
    "runtime": {"threads": 1},
    "shapes": {"image_size": 64, "near_duplicates": 0.0, "captions_per_image": 5},
    "vocabulary": {"dim": 16, "epochs": 1},
    "detector": {"weights": "random", "channels": 16, "hidden": 64, "proposals": 16}
    | {"anchors": [[16.0], [24.0], [32.0]]},
    "image_features": {"size": 64, "batch_size": 16, "workers": 0, "weights": "random"},
    "regions": {"boxes": 3, "workers": 0},
    "pseudo_classes": {"source": "kmeans", "k": 20},
    "sentences": {"fisher": {"centres": 4, "ica": 8, "pca": 32}},
    "phrases": {"train_images": None, "features": {"workers": 0}, "proposals": {"number": 16}},
    "vse": {"dim": 32, "hidden": 32, "word_dim": 16, "training": EPOCH},
    "two_branch": {"dim": 32, "hidden": 64, "training": EPOCH},
    "cca": {"dim": 8, "regularisation": 0.1},
    "dual_path": {"dim": 64, "hidden": 64, "slots": 24, "word_dim": 16, "text_width": 8}
    | {"resize": 64, "crop": 56, "training": {"batch_size": 32, "workers": 0}}
    | {"phases": [PHASE | {"name": kind, "images": kind} for kind in ("features", "pixels")]},
    "scan": {"dim": 32, "word_dim": 16, "training": EPOCH},
    "vse_infinity": {"dim": 32, "word_dim": 16, "training": EPOCH},
    "dp_rnn": {"dim": 16, "word_dim": 16, "candidates": 3, "validation_shortlist": 5}
    | {"training": EPOCH | {"epochs": {"matching": 1, "recurrent": 0, "all": 1}}},
    "phrase_two_branch": {"dim": 32, "hidden": 64, "training": PAIRS}
    | {"mining": {"epochs": 1, "sampled": 3}},
    "phrase_cca": {"dim": 16},
    "scoring": {"shortlist": 5},
    "search": {"index": "hnsw", "models": ["vse"]},
    "evaluation": {"bootstrap": 100},
}


def prepared(folder: Path, images: int) -> dict[str, str]:
    """Lay out a folder in which the stages run on so many images; their commands in their order."""
    from pipeline.runtime.graph import resolved_stage, stage_items
    from pipeline.runtime.recipes import with_recipe
    from pipeline.runtime.yaml_text import read_yaml
    from stages.params import find_problems

    (folder / "data/raw/shapes").mkdir(parents=True)
    for name in ("data/raw/shapes/world.yaml", "dvc.yaml"):
        (folder / name).write_bytes((ROOT / name).read_bytes())
    os.chdir(folder)  # paths in params.yaml are looked for from here
    splits = dict(zip(("train", "val", "test"), SIZES[images], strict=True))
    changes = NARROW | {"shapes": NARROW["shapes"] | splits}
    params = ROOT / "params.yaml"
    text, _ = with_recipe(params, read_yaml(params), changes, find_problems)
    Path("params.yaml").write_text(text, encoding="utf-8")
    commands = {}
    for stage, body in read_yaml(Path("dvc.yaml"))["stages"].items():
        for item in stage_items(stage) if "foreach" in body else [None]:
            spec = resolved_stage(stage, item)
            for path in [*spec.get("outs", []), *spec.get("metrics", []), *spec.get("plots", [])]:
                path = path if isinstance(path, str) else next(iter(path))
                Path(path).parent.mkdir(parents=True, exist_ok=True)
            commands[stage if item is None else f"{stage}@{item}"] = spec["cmd"]
    return commands


def measured(folder: Path, stage: str, command: str) -> tuple[float, float]:
    """Run a stage: its processor seconds and its largest resident memory in MB, of shared libraries
    and mapped files, too. What it says is kept in a file, the last of it shown when it fails."""
    words = [sys.executable if word == "python" else word for word in shlex.split(command)]
    log = folder / f"{stage}.log"
    with open(log, "w", encoding="utf-8") as said:
        environment = os.environ | {"PYTHONPATH": str(ROOT), "CI": "1"}
        process = subprocess.Popen(words, cwd=folder, env=environment, stdout=said, stderr=said)
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{stage} in {folder}: {log.read_text(encoding='utf-8')[-2000:]}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024 / 1e6


def main(name: str) -> None:
    """Measure all stages in FOLDER at all sizes; print a row a stage, and what each image costs
    between the last two sizes."""
    costs: dict[str, list[tuple[float, float]]] = {}
    for images in SIZES:
        folder = Path(name).resolve() / str(images)
        spawned = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(1, mp_context=spawned) as helper:
            commands = helper.submit(prepared, folder, images).result()
        for stage, command in list(commands.items())[:STAGES]:
            costs.setdefault(stage, []).append(measured(folder, stage, command))
            print(f"{images:,} images, {stage}: {costs[stage][-1]}", file=sys.stderr)
    sizes = [f"{images:,}" for images in SIZES]
    heads = ["stage", *(f"s, {size}" for size in sizes), "ms an image"]
    heads += [*(f"MB, {size}" for size in sizes), "kB an image"]
    print(f"| {' | '.join(heads)} |\n| --- |{' ---: |' * (len(heads) - 1)}")
    less, more = list(SIZES)[-2:]
    for stage, rows in costs.items():
        seconds, memory = zip(*rows, strict=True)
        slopes = [1e3 * (kind[-1] - kind[-2]) / (more - less) for kind in (seconds, memory)]
        cells = [*(f"{value:.1f}" for value in seconds), f"{slopes[0]:.1f}"]
        cells += [*(f"{value:.0f}" for value in memory), f"{slopes[1]:.1f}"]
        print(f"| `{stage}` | {' | '.join(cells)} |")


if __name__ == "__main__":
    main(*sys.argv[1:])
