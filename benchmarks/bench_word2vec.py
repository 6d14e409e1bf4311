"""Streaming word2vec reader against gensim's full load: time and memory on a synthetic .bin."""

import statistics
import tempfile
from pathlib import Path

import numpy as np
from gensim.models import KeyedVectors

from benchmarks.common import Row, apart, memory, seconds, where_time_goes
from pipeline.words.vectors import read_vectors

WORDS, DIM, WANTED = 300_000, 300, 8_000
RUNS = 5


def rows() -> list[Row]:
    """Time and peak extra memory, each reader in a process of its own, file in the page cache."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "synthetic.bin"
        write_synthetic(path)
        apart(measure, ours, path)
        pairs = [(apart(measure, ours, path), apart(measure, gensim, path)) for _ in range(RUNS)]
        profile = where_time_goes(lambda: ours(path))
    wall, processor = (statistics.median(b[i] / a[i] for a, b in pairs) for i in (0, 1))
    took = [statistics.median(pair[i][0] for pair in pairs) for i in (0, 1)]
    extra = [max(pair[i][2] for pair in pairs) / 2**20 for i in (0, 1)]
    work = f"word2vec .bin {WORDS:,} x {DIM}, {WANTED:,} words wanted"
    figure = f"{wall:.1f}x gensim's full load ({took[0]:.2f} s, {took[1]:.2f} s; processor time "
    memory_figure = f"{extra[0]:.0f} MB (gensim {extra[1]:.0f} MB)"
    return [
        Row(work, f"{figure}{processor:.1f}x)", ">= 15x", wall >= 15, profile=profile),
        Row(f"{work}: extra memory", memory_figure, "< 300 MB", extra[0] < 300),
    ]


def ours(path: Path) -> None:
    """Only the wanted words."""
    wanted = [f"word{i * (WORDS // WANTED)}" for i in range(WANTED)]
    assert len(read_vectors("word2vec_bin", path, wanted).rows) == WANTED


def gensim(path: Path) -> None:
    """All words."""
    assert len(KeyedVectors.load_word2vec_format(str(path), binary=True)) == WORDS


def measure(work, path: Path) -> tuple[float, float, int]:
    """Seconds, processor seconds and extra bytes of one reader in a fresh process."""
    before = memory("VmRSS")
    return *seconds(lambda: work(path)), memory() - before


def write_synthetic(path: Path) -> None:
    """A file in word2vec's binary format: WORDS words and normal values."""
    generator = np.random.default_rng(0)
    with open(path, "wb") as file:
        file.write(f"{WORDS} {DIM}\n".encode())
        for start in range(0, WORDS, 10_000):
            values = generator.standard_normal((10_000, DIM), dtype=np.float32)
            for i, row in enumerate(values, start):
                file.write(f"word{i} ".encode() + row.tobytes() + b"\n")
