"""`python -m sharded_program`: an extraction in shards whose processes load no torch, and which
kill, fail or lose their files where a file in the folder, named for it, asks for that once.

A row is its number and the sum of the numbers in its batch, so that other batches give other bytes.
"""

import argparse
import os
import shutil
import signal
import sys
from functools import partial
from pathlib import Path

import numpy as np

from pipeline.features.kept_rows import RowStore
from pipeline.features.shards import FeatureJob, Plan
from pipeline.runtime.engines import Engine
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.section import RuntimeConfig

COUNT, BATCH = 22, 4
WORK, DRIVER, MADE = Path("work"), Path("driver.pid"), Path("made")


def asked(what, first):
    """Whether a file asks for something in the shard that begins with a row; only once."""
    flag = Path(f"{what}-{first}")
    if not flag.exists():
        return False
    flag.unlink()
    return True


def die(pid):
    """Kill a process, and wait for the end that must follow when it is another."""
    os.kill(pid, signal.SIGKILL)
    signal.pause()


def fill(table, is_shard, writer):
    numbers = np.array([number for _, number in table], np.float32)
    for start in np.unique(writer.missing // BATCH) * BATCH:
        rows = np.arange(start, min(start + BATCH, len(numbers)))
        values = np.stack([numbers[rows], np.full(len(rows), numbers[rows].sum())], axis=1)
        writer.write(rows, features=values)
        writer.flush()
        with MADE.open("a") as log:
            log.write(f"{table[start][1]}\n")
        if is_shard:
            disturb(table[0][1])


def disturb(first):
    if asked("kill_itself", first):
        die(os.getpid())
    if asked("kill_parent", first):
        die(os.getppid())
    if asked("kill_driver", first):
        die(int(DRIVER.read_text()))
    if asked("fail", first):
        raise WorkbenchError(f"image {first} is bad", "mend it")


def digest(table):
    return "".join(name for name, _ in table)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--corpus", default="a")
    parser.add_argument("--rows", type=int, nargs=2)
    parser.add_argument("--shard", type=int)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--engine", default="local")
    given = parser.parse_args()
    table = [(f"{given.corpus}{number}", number) for number in range(COUNT)]
    if given.rows:
        table = table[slice(*given.rows)]
    else:
        DRIVER.write_text(str(os.getpid()))
    sharing = {"engine": given.engine, "workers": given.workers, "shard": given.shard}
    runtime = RuntimeConfig(device="cpu", threads=1, processes=1, extraction=sharing)
    store = RowStore(WORK / "rows", 0)
    made_by = "sharded_program", {"corpus": given.corpus}, Engine(runtime), store
    plan = Plan(given.shard, BATCH, table, digest, *made_by)
    if given.rows and asked("kill_before_cleaning", given.rows[0]):
        shutil.rmtree = lambda _: die(os.getpid())
    made = FeatureJob(
        ids=[name for name, _ in table],
        datasets={"features": ((2,), "float16")},
        attributes={"corpus_sha256": digest(table)},
        machine=[],
        fill=partial(fill, table, given.rows is not None),
    )
    try:
        made.make(WORK, given.output, plan, given.rows is not None)
    except WorkbenchError as error:
        sys.exit(f"error: {error}")
    if given.rows:
        if asked("lose", given.rows[0]):
            given.output.unlink()
        if asked("kill_driver_after", given.rows[0]):
            die(int(DRIVER.read_text()))


if __name__ == "__main__":
    main()
