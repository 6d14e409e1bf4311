"""The corpus tables at three sizes: groups of rows, memory of writing and reading.

`python -m benchmarks.scale_tables` prints a line for each table and size. Every step has a process
of its own, whose peak is told less that of one that only loads the libraries.
"""

import multiprocessing
import resource
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

SIZES = (11_000, 110_000, 1_100_000)  # rows; a group of a file has 1,048,576 at most
TEXT = "a small striped red circle is to the left of a large blue square"


def made(name: str, rows: int):
    """A table of so many rows like those of the built-in corpus."""
    import pandas as pd

    ids = [f"train_{number:07d}.jpg" for number in range(rows)]
    own = {"image_id": ids, "split": "train"}
    if name == "images":
        own |= {"path": [f"data/corpus/images/{image}" for image in ids], "group": ids}
        own |= {"width": 128, "height": 128, "sha256": [f"{n:064x}" for n in range(rows)]}
    elif name == "captions":
        own |= {"caption_id": ids, "text": TEXT}
        own |= {"tokens": [TEXT.split() for _ in ids], "fits": [[] for _ in ids]}
    else:
        own |= {side: 1.0 for side in ("x1", "y1", "x2", "y2")} | {"object": "circle"}
        own["attributes"] = [["red", "small", "striped"] for _ in ids]
    return pd.DataFrame(own)


def step(kind: str, name: str, path: Path, rows: int) -> int:
    """Do one thing; return the peak of this process in bytes, or the groups of rows of a file."""
    import pyarrow.parquet as pq

    from pipeline.corpus import tables

    schema = getattr(tables, name.upper())
    if kind == "groups":
        return int(pq.ParquetFile(path).num_row_groups)
    if kind in ("make", "write"):
        table = made(name, rows)[schema.names]
        if kind == "write":
            tables.write_table(path, table, schema)
    elif kind != "load":
        tables.read_table(path, schema, range(1_000) if kind == "some" else None)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def alone(*values) -> int:
    """What `step` returns in a new process."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(step, *values).result()


def main() -> None:
    """Print the lines of the table in docs/notes/scale.md."""
    base = alone("load", "images", Path(), 0)
    with TemporaryDirectory() as folder:
        for name in ("images", "captions", "boxes"):
            for rows in SIZES:
                of = name, Path(folder) / f"{name}.parquet", rows
                peaks = [alone(kind, *of) - base for kind in ("make", "write", "whole", "some")]
                told = " | ".join(f"{peak / 1e6:,.0f}" for peak in peaks)
                print(f"| {name} | {rows:,} | {alone('groups', *of)} | {told} |", flush=True)


if __name__ == "__main__":
    main()
