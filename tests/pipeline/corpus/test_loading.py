"""Decoding ahead where the processes of it cannot work together."""

import re
import subprocess
import sys

import pytest
from full_disk import ROOT, small_disks

LOAD = """
import sys
from dataclasses import dataclass
sys.path[:0] = ["."]
from pipeline.corpus.loading import decode_ahead
from pipeline.runtime.errors import WorkbenchError

@dataclass
class Batch:
    problems: tuple = ()

try:
    print(len(list(decode_ahead([Batch(), Batch()], int(sys.argv[1]), "image_features"))))
except WorkbenchError as error:
    print(error)
"""


@pytest.mark.skipif(not small_disks(), reason="no file systems of one's own here")
@pytest.mark.parametrize("options", ["ro", "size=4k,nr_inodes=1"])
def test_a_dev_shm_that_cannot_be_written_is_one_line(options: str) -> None:
    mount = f'mount -t tmpfs -o {options} none /dev/shm && exec "$@"'
    for workers, expected in [(2, r"/dev/shm cannot be written \(.+\), which .+ need"), (0, "2")]:
        done = subprocess.run(
            ["unshare", "-rm", "sh", "-c", mount, "sh", sys.executable, "-c", LOAD, str(workers)],
            capture_output=True,
            text=True,
            cwd=ROOT,
        )
        lines = done.stdout.splitlines()
        assert re.fullmatch(expected, lines[0]), done.stderr
        assert lines[1:] == (["set image_features.workers to 0"] if workers else [])
        assert "Traceback" not in done.stderr
