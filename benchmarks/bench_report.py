"""The last stage, `compare`: one table and one page of five models on 1,000 images.

It runs as the graph runs it, in a process of its own, on files that other stages would have
written: photographs of 500 x 375 pixels, ranks, metrics and curves.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.common import ROOT, Row, new_folder, photographs, seconds, size
from pipeline.corpus.tables import BOXES, Corpus
from pipeline.evaluation.criterion import Criterion
from pipeline.evaluation.findings import collect_findings
from pipeline.evaluation.protocol import evaluate
from pipeline.evaluation.rank_file import write_ranks
from pipeline.evaluation.score_file import SplitScores
from pipeline.runtime.files import write_json

MODELS = size(("cca", "dp_rnn", "scan", "two_branch", "vse"), ("cca", "vse"))
IMAGES, EACH, SIDE, TIMES = size((1_000, 5, (500, 375), 3), (12, 2, (50, 25), 1))
RESAMPLES = size(1_000, 10)
IDS = [f"{n:04}" for n in range(IMAGES)]
CAPTIONS = [f"{n}" for n in range(IMAGES * EACH)]


def rows() -> Iterator[Row]:
    with new_folder() as folder:
        (folder / "data/raw/shapes").mkdir(parents=True)
        (folder / "ranks").mkdir()
        shutil.copy(ROOT / "params.yaml", folder)
        put_corpus(folder)
        command = [sys.executable, "-m", "stages.compare", "--output", "compare.md"]
        command += ["--page", "page.html", "--images", "images.parquet"]
        command += ["--captions", "captions.parquet"]
        for seed, model in enumerate(MODELS):
            put_model(folder, model, seed)
            command += [f"--metrics={model}.json", f"--ranks=ranks/{model}.h5"]
            command += [f"--curves={model}.tsv"]

        def run() -> None:
            environment = {**os.environ, "PYTHONPATH": str(ROOT)}
            subprocess.run(command, cwd=folder, check=True, env=environment)

        took = min(seconds(run).wall for _ in range(TIMES))
        megabytes = (folder / "page.html").stat().st_size / 1e6
    work = f"report of {len(MODELS)} models of {IMAGES:,} x {IMAGES * EACH:,}, "
    work += f"{SIDE[0]} x {SIDE[1]} images, a process of its own"
    yield Row(work, f"{took:.1f} s, {megabytes:.1f} MB", "<= 30 s", took)


def put_corpus(folder: Path) -> None:
    images = photographs(folder, SIDE, IMAGES, cell=25).assign(split="test", group=IDS)
    captions = {
        "caption_id": CAPTIONS,
        "image_id": np.repeat(IDS, EACH),
        "split": "test",
        "text": [f"two people walk past house no. {n}" for n in CAPTIONS],
        "tokens": [["two", "people"]] * (IMAGES * EACH),
    }
    boxes = pd.DataFrame(columns=BOXES.names, dtype=object)
    rejects = pd.DataFrame(columns=["file", "reason"])
    Corpus(images, pd.DataFrame(captions), boxes, rejects).write(folder)


def put_model(folder: Path, name: str, seed: int) -> None:
    owners = np.repeat(np.arange(IMAGES), EACH)
    scores = np.random.default_rng(seed).standard_normal((IMAGES, IMAGES * EACH), np.float32)
    scores[owners, np.arange(IMAGES * EACH)] += 3
    split = SplitScores(scores, IDS, CAPTIONS, [IDS[n] for n in owners], IDS)
    criteria = [Criterion("naive")]
    evaluation = evaluate(split, 1, RESAMPLES, 0.95, 0, criteria, IMAGES, None)
    findings = collect_findings(
        split, evaluation, criteria, {"model": name, "checkpoint_sha256": "ab12"}
    )
    write_json(folder / f"{name}.json", evaluation.summary())
    write_ranks(folder / f"ranks/{name}.h5", split, evaluation, 0.95, findings=findings)
    (folder / f"{name}.tsv").write_text("epoch\tphase\tloss\tval_rsum\n1\tsum\t9\t100.5\n")
