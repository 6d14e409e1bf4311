"""Image features of a corpus with 1 % of new images, from rows of an earlier run, against a run of
all images; and what of it is checking and copying."""

import shutil
import statistics
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from benchmarks.common import Row, new_folder, photographs, seconds, size
from models.backbone.extraction import accelerate, extract
from models.backbone.network import classifier, cut
from models.backbone.preprocessing import preprocessing_of
from pipeline.features.batches import alone
from pipeline.features.kept_rows import RowStore
from pipeline.features.shards import FeatureJob, Plan
from pipeline.runtime.engines import Engine
from pipeline.runtime.section import RuntimeConfig

COUNT = size(5_000, 20)
SIDE = size(64, 40)
EVERY = size(100, 10)  # one image of so many is new
BATCH = size(64, 2)  # the default of params.yaml
RUNS = size(3, 1)
CPU = torch.device("cpu")


def rows() -> Iterator[Row]:
    preprocessing = preprocessing_of("resnet18", SIDE, "center")
    backbone, width = cut(classifier("resnet18", 0), ["layer1", "layer2"], "mean_max", SIDE)
    forward = accelerate(backbone, CPU, "fp32", False, BATCH, SIDE)

    def make(folder: Path, table: pd.DataFrame, limit: float, is_computed: bool = True) -> None:
        compute = partial(
            extract, table, forward, preprocessing, batch_size=BATCH, workers=2, device=CPU
        )
        job = FeatureJob(
            ids=table["image_id"].tolist(),
            datasets={"features": ((width,), "float16")},
            attributes={},
            machine=[],
            fill=compute if is_computed else lambda writer: None,
            inputs=alone(table["sha256"].tolist(), BATCH),
        )
        plan = Plan(
            size=None,
            batch=BATCH,
            table=table,
            digest=str,
            module="",
            paths={},
            engine=Engine(RuntimeConfig(device="cpu", threads=2, processes=1)),
            store=RowStore(folder / "rows", limit),
        )
        job.make(folder / "work", folder / "image.h5", plan)

    with new_folder() as folder:
        new = photographs(folder, (SIDE, SIDE), COUNT)
        # from all over the corpus, so that every batch of a full run has other neighbours
        old = new[np.arange(COUNT) % EVERY != EVERY // 2]
        make(folder, old, limit=1.0)
        shutil.copytree(folder / "rows", folder / "kept")
        times: dict[str, list[float]] = {"full": [], "ours": [], "copying": []}
        for _ in range(RUNS):
            times["full"].append(seconds(partial(make, folder, new, 0.0)).wall)
            full = (folder / "image.h5").read_bytes()
            shutil.rmtree(folder / "rows")
            shutil.copytree(folder / "kept", folder / "rows")
            times["ours"].append(seconds(partial(make, folder, new, 1.0)).wall)
            if (folder / "image.h5").read_bytes() != full:
                raise ValueError("a file with rows of an earlier run has other bytes")
            # now the store has all rows
            times["copying"].append(seconds(partial(make, folder, new, 1.0, False)).wall)
        full_run, ours, copying = (statistics.median(times[name]) for name in times)
        share = 100 * (ours - copying) / full_run
        yield Row(
            f"{COUNT:,} images at {SIDE}, ResNet-18, {COUNT - len(old):,} of them new, rows of the "
            "others from an earlier run",
            f"{share:.1f} % of a run of all images ({full_run:.3g} s) and {copying:.2g} s of "
            "checking and copying; equal bytes",
            "<= 2 %",
            share,
        )
