"""The last stage, `compare`: one table and one page of five models on 1,000 images.

It runs as the graph runs it, in a process of its own, on files that other stages would have
written: photographs of 500 x 375 pixels, ranks, metrics and curves. Nothing else makes such
a page, so its time is held against what a reader waits for.
"""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
from PIL import Image

from benchmarks.common import Row
from pipeline.corpus.tables import BOXES, Corpus
from pipeline.evaluation.criterion import Criterion
from pipeline.evaluation.file import write_ranks
from pipeline.evaluation.folds import evaluate
from pipeline.evaluation.look import look
from pipeline.runtime.files import write_json
from pipeline.scores.file import SplitScores

ROOT = Path(__file__).resolve().parents[1]
MODELS = ("cca", "dp_rnn", "scan", "two_branch", "vse")
IMAGES, EACH, SIDE, TIMES = 1_000, 5, (500, 375), 3
LIMIT = 30  # seconds


def rows() -> list[Row]:
    """The one row of the table, the least of three runs."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "data/raw/shapes").mkdir(parents=True)
        (folder / "ranks").mkdir()
        shutil.copy(ROOT / "params.yaml", folder)
        put_corpus(folder)
        for seed, model in enumerate(MODELS):
            put_model(folder, model, seed)
        command = [sys.executable, "-m", "stages.compare", "--output", "compare.md"]
        command += ["--page", "page.html", "--images", "images.parquet"]
        command += ["--captions", "captions.parquet"]
        for model in MODELS:
            command += [f"--metrics={model}.json", f"--ranks=ranks/{model}.h5"]
            command += [f"--curves={model}.tsv"]
        took = []
        for _ in range(TIMES):
            start = time.perf_counter()
            subprocess.run(command, cwd=folder, check=True,
                           env={**os.environ, "PYTHONPATH": str(ROOT)})  # fmt: skip
            took.append(time.perf_counter() - start)
        size = (folder / "page.html").stat().st_size / 1e6
    return [
        Row(
            f"report of {len(MODELS)} models of {IMAGES:,} x {IMAGES * EACH:,}, "
            f"{SIDE[0]} x {SIDE[1]} images, a process of its own",
            f"{min(took):.1f} s, {size:.1f} MB",
            f"<= {LIMIT} s",
            min(took) <= LIMIT,
        )
    ]


def put_corpus(folder: Path) -> None:
    """Tables and image files of the corpus."""
    generator = np.random.default_rng(0)
    ids = [f"{n:04}.jpg" for n in range(IMAGES)]
    for name in ids:
        coarse = generator.integers(0, 256, (SIDE[1] // 25, SIDE[0] // 25, 3), dtype=np.uint8)
        Image.fromarray(coarse).resize(SIDE, Image.Resampling.BICUBIC).save(folder / name)
    images = {"image_id": ids, "path": ids, "split": "test", "group": ids,
              "width": SIDE[0], "height": SIDE[1], "sha256": "0" * 64}  # fmt: skip
    captions = {"caption_id": [f"{n}" for n in range(IMAGES * EACH)],
                "image_id": np.repeat(ids, EACH), "split": "test",
                "text": [f"two people walk past house no. {n}" for n in range(IMAGES * EACH)],
                "tokens": [["two", "people"]] * (IMAGES * EACH)}  # fmt: skip
    Corpus(
        images=pd.DataFrame(images),
        captions=pd.DataFrame(captions),
        boxes=pd.DataFrame(columns=BOXES.names, dtype=object),
        rejects=pd.DataFrame(columns=["file", "reason"]),
    ).write(folder)


def put_model(folder: Path, name: str, seed: int) -> None:
    """Metrics, ranks and a curve of one model."""
    ids = [f"{n:04}.jpg" for n in range(IMAGES)]
    owners = np.repeat(np.arange(IMAGES), EACH)
    scores = np.random.default_rng(seed).standard_normal((IMAGES, IMAGES * EACH), np.float32)
    scores[owners, np.arange(IMAGES * EACH)] += 3
    captions = [f"{n}" for n in range(IMAGES * EACH)]
    split = SplitScores(scores, ids, captions, [ids[n] for n in owners], ids)
    criteria = [Criterion("naive")]
    evaluation = evaluate(split, 1, 1_000, 0.95, 0, criteria, IMAGES, None)
    findings = look(split, evaluation, criteria, {"model": name, "checkpoint_sha256": "ab12"})
    write_json(folder / f"{name}.json", evaluation.summary())
    write_ranks(folder / f"ranks/{name}.h5", split, evaluation, 0.95, findings=findings)
    (folder / f"{name}.tsv").write_text("epoch\tphase\tloss\tval_rsum\n1\tsum\t9\t100.5\n")
