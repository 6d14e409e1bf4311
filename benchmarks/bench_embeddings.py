"""Bringing in a file of vectors against copying it: time as a ratio, memory of the import."""

import os
import shutil
import tempfile
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.common import Row, apart, memory, paired_ratio, where_time_goes
from pipeline.embeddings.job import import_job
from pipeline.runtime.section import EmbeddingFileConfig
from pipeline.storage.features import FeatureWriter

ROWS, DIM = 1_000_000, 512
RUNS, LIMIT = 3, 2


def rows() -> list[Row]:
    """Time beside a copy that reaches the disk, as the import does, the file in the page cache."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "clip.npy"
        write_synthetic(path)
        ours = partial(bring_in, path, names())
        pair = paired_ratio(ours, partial(copy, path), RUNS)
        profile = where_time_goes(ours) if pair.ratio > LIMIT else ""
        extra = apart(extra_memory, path) / 2**20
    work = f"import of {ROWS:,} x {DIM} float16"
    return [
        Row(work, pair.of("copying"), f"<= {LIMIT}x", pair.ratio <= LIMIT, profile=profile),
        Row(f"{work}: extra memory", f"{extra:.0f} MB", "< 256 MB", extra < 256),
    ]


def names() -> list[str]:
    """Ids of the rows."""
    return [f"image{number:07}.jpg" for number in range(ROWS)]


def extra_memory(path: Path) -> int:
    """Bytes that the import needs beside the ids."""
    ids, before = names(), memory("VmRSS")
    bring_in(path, ids)
    return memory() - before


def write_synthetic(path: Path) -> None:
    """Normal values in an .npy, and its ids beside it."""
    generator, block = np.random.default_rng(0), ROWS // 50
    values = np.lib.format.open_memmap(path, "w+", "float16", (ROWS, DIM))
    for start in range(0, ROWS, block):
        values[start : start + block] = generator.standard_normal((block, DIM), dtype=np.float32)
    values.flush()
    path.with_name("clip.ids.txt").write_text("".join(f"{name}\n" for name in names()))


def bring_in(path: Path, ids: list[str]) -> None:
    """Import the file and remove what came of it."""
    settings = EmbeddingFileConfig(
        path=str(path), ids="ids", features="features", other_ids="error"
    )
    job, work = import_job(settings, ids, "c" * 64, {"source": "file"}), path.parent / "work"
    with FeatureWriter(work, "f" * 16, ids, job.datasets, job.attributes) as writer:
        job.fill(writer)
        writer.finish(path.with_name("image.h5"))
    path.with_name("image.h5").unlink()


def copy(path: Path) -> None:
    """Copy the file to the disk and remove the copy."""
    target = path.with_name("copy.npy")
    shutil.copyfile(path, target)
    with open(target, "rb+") as handle:
        os.fsync(handle.fileno())
    target.unlink()
