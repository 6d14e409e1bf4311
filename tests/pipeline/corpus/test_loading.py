"""Processes that cannot work together, as /dev/shm cannot be written: one line, and a way out."""

import subprocess
import sys

import pytest
from full_disk import ROOT, small_disks

# Both kinds of processes that are started, and then none, as the way out says.
SCRIPT = """
from dataclasses import dataclass
from types import SimpleNamespace
import numpy as np
from pipeline.corpus.loading import decode_ahead
from pipeline.runtime.errors import WorkbenchError
from pipeline.scores import tiles
from pipeline.scores.workers import spread_over

@dataclass
class Batch:
    problems: tuple = ()

def decoded(workers):
    return len(list(decode_ahead([Batch(), Batch()], workers, "image_features")))

def spread(processes):
    tiles.BLOCK = (1, 1)
    products = tiles.Products(*(np.eye(2, dtype=np.float32) for _ in range(2)))
    with spread_over(SimpleNamespace(scores=products), processes):
        return 2

for work, number in [(decoded, 2), (spread, 2), (decoded, 0), (spread, 1)]:
    try:
        print(work(number))
    except WorkbenchError as error:
        print(error)
"""
REFUSED = "/dev/shm cannot be written (Read-only file system), which processes that {} need"


@pytest.mark.skipif(not small_disks(), reason="no file systems of one's own here")
def test_a_dev_shm_that_cannot_be_written_is_one_line() -> None:
    mount = 'mount -t tmpfs -o ro none /dev/shm && exec "$@"'
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", mount, "sh", sys.executable, "-c", SCRIPT],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert done.stdout.splitlines() == [
        REFUSED.format("decode images"),
        "set image_features.workers to 0",
        REFUSED.format("count ranks"),
        "set runtime.processes to 1",
        "2",
        "2",
    ], done.stderr
    assert "Traceback" not in done.stderr
