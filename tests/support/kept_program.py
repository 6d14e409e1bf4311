"""`python -m kept_program OUTPUT NUMBER...`: a feature file whose rows are made of numbers, with a
store of rows; a process that is told so by a variable kills itself in the middle. No torch.

By the kind of the inputs (variable KIND) a row is (number, what of its batch matters):
    alone: nothing, 0
    neighbours: the sum of its batch, though the inputs say that it stands alone
    blocks: the sum of its block
    grouped: how many numbers of its batch are as odd or even as it is
"""

import os
import signal
import sys
from pathlib import Path

import numpy as np

from pipeline.features import kept_rows
from pipeline.features.batches import alone, grouped, in_blocks
from pipeline.features.kept_rows import RowStore
from pipeline.features.shards import FeatureJob, Plan
from pipeline.runtime.engines import Engine
from pipeline.runtime.section import RuntimeConfig

BATCH = 4
LIMIT = 1.0  # GB


def batch_values(numbers, kind):
    """(B, 2) rows of a batch of numbers."""
    matters = {
        "alone": np.zeros(len(numbers)),
        "neighbours": np.full(len(numbers), numbers.sum()),
        "blocks": np.full(len(numbers), numbers.sum()),
        "grouped": np.array([np.sum(numbers % 2 == one % 2) for one in numbers]),
    }
    return np.stack([numbers, matters[kind]], axis=1).astype(np.float32)


def inputs_of(numbers, kind):
    texts = [str(number) for number in numbers]
    if kind == "blocks":
        return in_blocks(texts, BATCH)
    if kind != "grouped":
        return alone(texts, BATCH)
    companies = []
    for row, number in enumerate(numbers):
        start = row // BATCH * BATCH
        batch = numbers[start : start + BATCH]
        companies.append((number % 2, sum(one % 2 == number % 2 for one in batch)))
    return grouped(texts, companies, {company: company[1] for company in companies})


def make(output, numbers, *, kind="alone", limit=LIMIT, settings="a", after_batch=None):
    """Make a file of numbers; the numbers that were computed."""
    numbers = np.array(numbers)
    computed = []

    def fill(writer):
        for rows in writer.batches(BATCH):
            groups = [rows]
            if kind == "grouped":  # a batch may hold a group, or whole groups
                groups = [rows[numbers[rows] % 2 == odd] for odd in (0, 1)]
            computed.extend(numbers[rows].tolist())
            for group in groups:
                if len(group):
                    writer.write(group, features=batch_values(numbers[group], kind))
            if after_batch:
                writer.flush()
                after_batch()

    job = FeatureJob(
        ids=[f"id{row}" for row in range(len(numbers))],
        datasets={"features": ((2,), "float16")},
        attributes={"corpus_sha256": "".join(map(str, numbers)), "model": settings},
        machine=[],
        fill=fill,
        inputs=inputs_of(numbers.tolist(), kind),
    )
    plan = Plan(
        size=None,
        batch=BATCH,
        table=None,
        digest=None,
        module="",
        paths={},
        engine=Engine(RuntimeConfig(device="cpu", threads=1, processes=1)),
        store=RowStore(Path("rows"), limit),
    )
    job.make(Path("work"), Path(output), plan)
    return computed


def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)


def main():
    """KILL: `batch` after the first batch, `share` before the file is kept, `index` after it."""
    output, *numbers = sys.argv[1:]
    kill = os.environ.get("KILL")
    if kill == "share":
        kept_rows._share = die
    if kill == "index":
        kept_rows.write_features = die
    after_batch = die if kill == "batch" else None
    print(*make(output, list(map(int, numbers)), after_batch=after_batch))


if __name__ == "__main__":
    main()
