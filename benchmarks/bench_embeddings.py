"""Bringing in a file of vectors against copying it: time as a ratio, memory of the import."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.common import Row, apart, copy_to_disk, cost, new_folder, paired_ratio, size
from pipeline.features.feature_file import FeatureWriter
from pipeline.features.imports import Wanted
from pipeline.features.imports.file import import_job
from pipeline.runtime.section import EmbeddingFileConfig

ROWS, DIM = size((1_000_000, 512), (200, 8))
NAMES = [f"image{number:07}.jpg" for number in range(ROWS)]


def rows() -> Iterator[Row]:
    """Time beside a copy that reaches the disk, as the import does, the file in the page cache."""
    work = f"import of {ROWS:,} x {DIM} float16"
    with new_folder() as folder:
        path = folder / "clip.npy"
        write_synthetic(path)
        ours = partial(bring_in, path)
        copy = partial(copy_to_disk, path, folder / "copy.npy")
        pair = paired_ratio(ours, copy, runs=3)
        yield Row(work, pair.of("copying"), "<= 2x", pair.ratio, ours)
        extra = apart(cost, ours)[0].bytes / 2**20
        yield Row(f"{work}: extra memory", f"{extra:.0f} MB", "< 256 MB", extra)


def write_synthetic(path: Path) -> None:
    generator, block = np.random.default_rng(0), ROWS // 50
    values = np.lib.format.open_memmap(path, "w+", "float16", (ROWS, DIM))
    for start in range(0, ROWS, block):
        values[start : start + block] = generator.standard_normal((block, DIM), dtype=np.float32)
    values.flush()
    path.with_name("clip.ids.txt").write_text("".join(f"{name}\n" for name in NAMES))


def bring_in(path: Path) -> None:
    settings = EmbeddingFileConfig(
        path=str(path), ids="ids", features="features", other_ids="error"
    )
    wanted = Wanted(pd.DataFrame({"image_id": NAMES}), "image_id", "file.other_ids")
    job, work = import_job(settings, wanted, "c" * 64, {"source": "file"}), path.parent / "work"
    with FeatureWriter(work, "f" * 16, NAMES, job.datasets, job.attributes) as writer:
        job.fill(writer)
        writer.finish(path.with_name("image.h5"))
    path.with_name("image.h5").unlink()
