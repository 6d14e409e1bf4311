"""Every stage of the graph at three sizes of the built-in corpus: processor seconds and memory.

`python -m benchmarks.scale FOLDER`, some ten minutes of a core, adds a line to FOLDER/scale.tsv for
every stage of 50, 500 and 5,000 images; `python -m benchmarks.scale_page FOLDER/scale.tsv` makes
the table and the picture of docs/notes/scale.md. Each stage is a process of its own, started once
by the command of dvc.yaml, in its order. This program loads no library: what a process has when it
starts another counts in that one's peak.
"""

import csv
import multiprocessing
import os
import shlex
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
SIZES = {50: (30, 10, 10), 500: (300, 100, 100), 5_000: (3_000, 1_000, 1_000)}
CAPTIONS, WIDTH = 5, 32  # of an image; of the embeddings of another program
PHASE = {"epochs": 1, "lr": 0.002, "stop_below": 0.0, "train": ["text", "words", "image_head"]}
PHASE |= {"weights": {"ranking": 1.0, "image_instance": 1.0, "text_instance": 1.0}}
EPOCH = {"epochs": 1, "warmup_epochs": 0, "batch_size": 32}
PAIRS = EPOCH | {"batch_size": 256}  # of a phrase and its box
# Narrow networks, one epoch: what is looked for is what each more image costs, not what is learnt.
SMALL: dict[str, Any] = {
    "runtime": {"threads": 1},
    "shapes": {"image_size": 64, "near_duplicates": 0.0, "captions_per_image": CAPTIONS},
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
    "dp_rnn": {"dim": 16, "word_dim": 16, "candidates": 3, "validation_shortlist": 5}
    | {"training": EPOCH | {"epochs": {"matching": 1, "recurrent": 0, "all": 1}}},
    "phrase_two_branch": {"dim": 32, "hidden": 64, "training": PAIRS}
    | {"mining": {"epochs": 1, "sampled": 3}},
    "phrase_cca": {"dim": 16},
    "scoring": {"shortlist": 5},
    "search": {"index": "hnsw", "models": ["vse"]},
    "evaluation": {"bootstrap": 100},
}
EXTERNAL = "external: {other: {folder: other, images: images.npy, captions: captions.npy}}"


class Step(NamedTuple):
    """A stage: its name with the item, its command, and the paths that it writes."""

    name: str
    command: str
    outputs: list[str]


class Measured(NamedTuple):
    """What a stage took."""

    images: int
    stage: str
    seconds: float
    peak: int  # largest resident memory, bytes; of shared libraries and mapped files, too
    written: int  # bytes of its outputs


def prepared(folder: Path, images: int) -> list[Step]:
    """Lay out a folder in which the stages run on so many images; return them in their order."""
    import numpy as np

    from pipeline.runtime.graph import resolved_stage, stage_items
    from pipeline.runtime.recipes import overlay
    from pipeline.runtime.yaml_text import read_yaml
    from stages.params import find_problems

    raw = folder / "data/raw/shapes"
    raw.mkdir(parents=True, exist_ok=True)
    (raw / "world.yaml").write_bytes((ROOT / "data/raw/shapes/world.yaml").read_bytes())
    (folder / "dvc.yaml").write_bytes((ROOT / "dvc.yaml").read_bytes())
    generator = np.random.default_rng(0)
    (folder / "other").mkdir(exist_ok=True)
    for name, rows in (("images", images), ("captions", CAPTIONS * images)):
        values = generator.standard_normal((rows, WIDTH), np.float32)
        np.save(folder / f"other/{name}.npy", values)
    os.chdir(folder)  # paths in params.yaml are looked for from here
    splits = dict(zip(("train", "val", "test"), SIZES[images], strict=True))
    changes = SMALL | {"shapes": SMALL["shapes"] | splits}
    text, _ = overlay(ROOT / "params.yaml", changes, find_problems)
    Path("params.yaml").write_text(text.replace("external: {}", EXTERNAL), encoding="utf-8")
    steps = []
    for stage, body in read_yaml(Path("dvc.yaml"))["stages"].items():
        for item in stage_items(stage) if "foreach" in body else [None]:
            told = resolved_stage(stage, item)
            groups = (told.get(key, []) for key in ("outs", "metrics", "plots"))
            outputs = [path if isinstance(path, str) else next(iter(path))
                       for group in groups for path in group]  # fmt: skip
            for path in outputs:
                Path(path).parent.mkdir(parents=True, exist_ok=True)
            name = stage if item is None else f"{stage}@{item}"
            steps.append(Step(name, told["cmd"], outputs))
    return steps


def measured(folder: Path, images: int, step: Step) -> Measured:
    """Run a stage; what it says is kept in a file of FOLDER, the last of it shown when it fails."""
    words = [sys.executable if word == "python" else word for word in shlex.split(step.command)]
    log = folder / f"{step.name}.log"
    with open(log, "w", encoding="utf-8") as said:
        environment = os.environ | {"PYTHONPATH": str(ROOT), "CI": "1"}
        process = subprocess.Popen(words, cwd=folder, env=environment, stdout=said, stderr=said)
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{step.name} of {images:,} images: {log.read_text(encoding='utf-8')[-2000:]}")
    written = sum(
        file.stat().st_size
        for path in map(folder.joinpath, step.outputs)
        for file in ([path] if path.is_file() else path.rglob("*"))
    )
    seconds = round(usage.ru_utime + usage.ru_stime, 2)
    return Measured(images, step.name, seconds, usage.ru_maxrss * 1024, written)


def main(name: str, *sizes: str) -> None:
    """Measure all stages in FOLDER at all sizes, or at those named."""
    top = Path(name).resolve()
    for images in [int(size) for size in sizes] or SIZES:
        folder = top / str(images)
        apart = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(1, mp_context=apart) as helper:
            steps = helper.submit(prepared, folder, images).result()
        for step in steps:
            line = measured(folder, images, step)
            print(f"{images:,} images, {step.name}: {line.seconds} s, {line.peak >> 20} MiB")
            table = top / "scale.tsv"
            new = not table.exists()
            with open(table, "a", encoding="utf-8", newline="") as file:
                writer = csv.writer(file, delimiter="\t", lineterminator="\n")
                writer.writerows([Measured._fields, line] if new else [line])


if __name__ == "__main__":
    main(*sys.argv[1:])
