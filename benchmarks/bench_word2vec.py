"""Streaming word2vec reader against gensim's full load: time and memory on a synthetic .bin."""

import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.common import Row, where_time_goes
from pipeline.words.vectors import read_vectors

WORDS, DIM, WANTED = 300_000, 300, 8_000
RUNS = 5

OURS = """
from pathlib import Path
from pipeline.words.vectors import read_vectors
wanted = [f"word{i * (WORDS // WANTED)}" for i in range(WANTED)]
def work():
    assert len(read_vectors("word2vec_bin", Path(sys.argv[1]), wanted).rows) == WANTED
"""
GENSIM = """
from gensim.models import KeyedVectors
def work():
    assert len(KeyedVectors.load_word2vec_format(sys.argv[1], binary=True)) == WORDS
"""
# VmHWM belongs to this process alone; ru_maxrss also counts the process that started it.
MEASURE = """
import re, sys, time
WORDS, WANTED = {words}, {wanted}
{work}
def memory(key):
    return int(re.search(key + r":\\s+(\\d+)", open("/proc/self/status").read())[1])
before, start, busy = memory("VmRSS"), time.perf_counter(), time.process_time()
work()
print(time.perf_counter() - start, time.process_time() - busy, (memory("VmHWM") - before) / 1024)
"""


def rows() -> list[Row]:
    """Time and peak extra memory, each reader in a process of its own, file in the page cache."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "synthetic.bin"
        write_synthetic(path)
        measure(OURS, path)
        pairs = [(measure(OURS, path), measure(GENSIM, path)) for _ in range(RUNS)]
        wanted = [f"word{i * (WORDS // WANTED)}" for i in range(WANTED)]
        profile = where_time_goes(lambda: read_vectors("word2vec_bin", path, wanted))
    wall, processor = (statistics.median(b[i] / a[i] for a, b in pairs) for i in (0, 1))
    seconds = [statistics.median(pair[i][0] for pair in pairs) for i in (0, 1)]
    memory = [max(pair[i][2] for pair in pairs) for i in (0, 1)]
    work = f"word2vec .bin {WORDS:,} x {DIM}, {WANTED:,} words wanted"
    return [
        Row(
            work,
            f"{wall:.1f}x gensim's full load ({seconds[0]:.2f} s, {seconds[1]:.2f} s; "
            f"processor time {processor:.1f}x)",
            ">= 15x",
            wall >= 15,
            profile=profile,
        ),
        Row(
            f"{work}: extra memory",
            f"{memory[0]:.0f} MB (gensim {memory[1]:.0f} MB)",
            "< 300 MB",
            memory[0] < 300,
        ),
    ]


def write_synthetic(path: Path) -> None:
    """A file in word2vec's binary format: WORDS words and normal values."""
    generator = np.random.default_rng(0)
    with open(path, "wb") as file:
        file.write(f"{WORDS} {DIM}\n".encode())
        for start in range(0, WORDS, 10_000):
            values = generator.standard_normal((10_000, DIM), dtype=np.float32)
            for i, row in enumerate(values, start):
                file.write(f"word{i} ".encode() + row.tobytes() + b"\n")


def measure(work: str, path: Path) -> tuple[float, float, float]:
    """Seconds, processor seconds and extra MB of one reader in a fresh process."""
    program = MEASURE.format(words=WORDS, wanted=WANTED, work=work)
    command = [sys.executable, "-c", program, str(path)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    seconds, processor, megabytes = map(float, output.split())
    return seconds, processor, megabytes


if __name__ == "__main__":
    for row in rows():
        print(row)
