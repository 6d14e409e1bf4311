"""Processes that cannot work together, as /dev/shm cannot be written: one line, and a way out."""

import subprocess
import sys

import pytest
from full_disk import ROOT, small_disks

# Processes that are started, and then none, as the way out says.
SCRIPT = """
from dataclasses import dataclass
from pipeline.corpus.loading import decode_ahead
from pipeline.runtime.errors import WorkbenchError

@dataclass
class Batch:
    problems: tuple = ()

def decoded(workers):
    return len(list(decode_ahead([Batch(), Batch()], workers, "image_features")))

for workers in (2, 0):
    try:
        print(decoded(workers))
    except WorkbenchError as error:
        print(error)
"""
REFUSED = (
    "/dev/shm cannot be written (Read-only file system), which processes that decode images need"
)


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
        REFUSED,
        "set image_features.workers to 0",
        "2",
    ], done.stderr
    assert "Traceback" not in done.stderr
