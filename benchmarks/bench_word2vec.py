"""Streaming word2vec reader against gensim's full load: time and memory on a synthetic .bin."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
from gensim.models import KeyedVectors

from benchmarks.common import Row, apart, cost, new_folder, paired, size
from pipeline.corpus.words.vectors import read_vectors

WORDS, DIM, WANTED = size((300_000, 300, 8_000), (200, 4, 10))
BLOCK = size(10_000, 100)


def rows() -> Iterator[Row]:
    """Time and peak extra memory, each reader in a process of its own, file in the page cache."""
    with new_folder() as folder:
        path = folder / "synthetic.bin"
        write_synthetic(path)
        both = partial(ours, path), partial(gensim, path)
        pair = paired([tuple(apart(cost, reader)[0] for reader in both) for _ in range(size(5, 1))])
        extra, theirs = pair.ours.bytes / 2**20, pair.reference.bytes / 2**20
        work = f"word2vec .bin {WORDS:,} x {DIM}, {WANTED:,} words wanted"
        figure = f"{1 / pair.ratio:.1f}x gensim's full load ({pair.ours.wall:.2f} s, "
        figure += f"{pair.reference.wall:.2f} s; processor time {1 / pair.processor:.1f}x)"
        yield Row(work, figure, ">= 15x", 1 / pair.ratio, both[0])
        figure = f"{extra:.0f} MB (gensim {theirs:.0f} MB)"
        yield Row(f"{work}: extra memory", figure, "< 300 MB", extra)


def ours(path: Path) -> None:
    wanted = [f"word{i * (WORDS // WANTED)}" for i in range(WANTED)]
    assert len(read_vectors("word2vec_bin", path, wanted).rows) == WANTED


def gensim(path: Path) -> None:
    assert len(KeyedVectors.load_word2vec_format(str(path), binary=True)) == WORDS


def write_synthetic(path: Path) -> None:
    """A file in word2vec's binary format: WORDS words and normal values."""
    generator = np.random.default_rng(0)
    with open(path, "wb") as file:
        file.write(f"{WORDS} {DIM}\n".encode())
        for start in range(0, WORDS, BLOCK):
            values = generator.standard_normal((BLOCK, DIM), dtype=np.float32)
            for i, row in enumerate(values, start):
                file.write(f"word{i} ".encode() + row.tobytes() + b"\n")
