"""Shards moved into one file, against a copy and a digest of their bytes: what assembling costs."""

import math
from collections.abc import Iterator

import numpy as np

from benchmarks.common import Row, copy_to_disk, new_folder, paired_ratio, size
from pipeline.features.feature_file import FeatureWriter, write_features
from pipeline.features.shards import FeatureShard
from pipeline.runtime.files import sha256_file

ROWS, SHARDS, WIDTH = size((20_000, 4, 2048), (10, 2, 4))  # of a shard; float16: 82 MB each


def rows() -> Iterator[Row]:
    with new_folder() as folder:
        ids = [f"{number:012d}.jpg" for number in range(ROWS * SHARDS)]
        values = np.random.default_rng(0).normal(size=(ROWS, WIDTH)).astype(np.float16)
        for shard in range(SHARDS):
            names = ids[shard * ROWS : (shard + 1) * ROWS]
            write_features(folder / f"{shard}.kept", names, {"features": values}, {})

        def ours() -> None:
            shapes = {"features": ((WIDTH,), np.float16)}
            with FeatureWriter(folder / "work", "f", ids, shapes, {}, math.inf) as writer:
                for shard in range(SHARDS):
                    path = folder / f"{shard}.h5"
                    path.hardlink_to(folder / f"{shard}.kept")
                    part = range(shard * ROWS, (shard + 1) * ROWS)
                    FeatureShard(part, path, {}).move_into(writer)
                writer.finish(folder / "whole.h5")

        def plain() -> None:
            for shard in range(SHARDS):
                copy_to_disk(folder / f"{shard}.kept", folder / "copy")
                sha256_file(folder / "copy")

        pair = paired_ratio(ours, plain, runs=3)
        rate = ROWS * SHARDS * WIDTH * 2 / 1e6 / pair.ours.wall
        figure = f"{pair.of('a copy with fsync and SHA-256')}, {rate:,.0f} MB/s"
        work = f"{SHARDS} shards of {ROWS:,} x {WIDTH:,} float16 checked and moved into one file"
        yield Row(work, figure, "<= 5x", pair.ratio, ours)
