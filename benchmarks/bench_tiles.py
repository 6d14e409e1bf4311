"""Evaluation from embeddings, tile by tile, against the products of the same tiles alone.

`python -m benchmarks.bench_tiles 10000` prints the table for 10,000 images and 50,000 captions. The
time of every part but the bootstrap grows as the products do, with images times captions, so that a
slice tells the ratio. Seconds are processor time of one thread: what each of several processes
does, whatever else the machine is doing.
"""

import statistics
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch

from benchmarks.common import Row, apart, memory, seconds
from pipeline.evaluation.bootstrap import MeasuredFold, bootstrap_intervals
from pipeline.evaluation.criterion import Criterion
from pipeline.evaluation.folds import evaluate
from pipeline.evaluation.measure import measured_of
from pipeline.scores.blocks import cuts
from pipeline.scores.file import SplitScores, read_scores, write_scores
from pipeline.scores.groups import group_codes
from pipeline.scores.ranking import DIRECTIONS
from pipeline.scores.ranks import of_groups
from pipeline.scores.tiles import BLOCK, Products

WIDTH = 512
CAPTIONS_PER_IMAGE = 5
LIMIT = 1.5
# How often all products are made: once to rank by, and as often as a criterion looks before that.
PASSES = {"naive": 1, "inverted_softmax": 2, "csls": 2}
RESAMPLES = 1000
GIGABYTES = 2.0
RUNS = 2


def rows(images: int = 4000) -> list[Row]:
    """A row of time per criterion, one of the bootstrap and one of memory, of another process."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "vse.h5"
        write_scores(path, {"test": embedded(images)}, {"model": "vse"})
        return apart(measured, path, threads=1)


def embedded(images: int) -> SplitScores:
    """Random unit vectors, captions near their image."""
    random = np.random.default_rng(0)
    owner = np.repeat(np.arange(images), CAPTIONS_PER_IMAGE)
    pictures = random.standard_normal((images, WIDTH), dtype=np.float32)
    texts = 4 * random.standard_normal((len(owner), WIDTH), dtype=np.float32) + pictures[owner]
    for vectors in (pictures, texts):
        vectors /= np.sqrt(np.einsum("nk,nk->n", vectors, vectors))[:, None]
    ids = [f"{n}.jpg" for n in range(images)]
    captions = [f"c{n}" for n in range(len(owner))]
    products = Products(pictures, texts)
    return SplitScores(products, ids, captions, [ids[n] for n in owner], ids, pictures, texts)


def products_alone(split: SplitScores) -> None:
    """Every tile once, of embeddings in memory, into memory that is already there."""
    images, captions = map(np.asarray, (split.image_embeddings, split.caption_embeddings))
    out = torch.empty(BLOCK)
    for rows in cuts(len(images), BLOCK[0]):
        own = torch.from_numpy(images[rows].copy())
        for columns in cuts(len(captions), BLOCK[1]):
            others = torch.from_numpy(captions[columns].copy())
            torch.mm(own, others.T, out=out[: len(own), : len(others)])


def measured(path: Path) -> list[Row]:
    """The rows of a file of embeddings."""
    split, found = read_scores(path, "test"), []
    sizes = f"{split.scores.shape[0]:,} x {split.scores.shape[1]:,} at {WIDTH}-d"
    for name, passes in PASSES.items():
        criteria = [Criterion(name)]
        works = lambda c=criteria: evaluate(split, 1, 0, 0.95, 0, c), lambda: products_alone(split)
        times = [tuple(seconds(work).processor for work in works) for _ in range(RUNS)]
        ours, bound = (statistics.median(column) for column in zip(*times, strict=True))
        ratio = statistics.median(one / other for one, other in times) / passes
        title = f"{name} of {sizes}, from embeddings, both directions"
        figure = f"{ratio:.2f}x of {passes} x the products ({ours:.1f} s, {bound:.1f} s each)"
        found.append(Row(title, figure, f"<= {LIMIT}x", ratio <= LIMIT))
    codes = group_codes(split.image_groups, split.caption_groups)
    both = measured_of([of_groups(split.scores, *codes, way, 1) for way in DIRECTIONS])
    fold = MeasuredFold(dict(zip(DIRECTIONS, both, strict=True)), *codes)
    took = seconds(lambda: bootstrap_intervals([fold], RESAMPLES, 0.95, 0)).wall
    found.append(Row(f"bootstrap of {sizes}, {RESAMPLES:,} resamples", f"{took:.1f} s"))
    peak, held = memory() / 1e9, 1e-9 * 4 * WIDTH * sum(split.scores.shape)
    title = "the same: peak of the process, the mapped embeddings included"
    figure = f"{peak:.2f} GB, {held:.2f} GB of it embeddings"
    return [*found, Row(title, figure, f"< {GIGABYTES:g} GB", peak < GIGABYTES)]


if __name__ == "__main__":
    for row in rows(int(sys.argv[1])):
        print(f"| {row.work} | {row.figure} | {row.target} | {row.reached} |")
