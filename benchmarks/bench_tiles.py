"""Evaluation from embeddings, tile by tile, against the products of the same tiles alone.

The time of every part but the bootstrap grows as the products do, with images times captions, so
that a slice tells the ratio. Seconds are processor time of one thread: what each of several
processes does, whatever else the machine is doing.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import torch

from benchmarks.common import Row, apart, clustered, memory, new_folder, paired_ratio, seconds, size
from pipeline.evaluation.bootstrap import MeasuredFold, bootstrap_intervals
from pipeline.evaluation.criterion import Criterion
from pipeline.evaluation.figures import measured_of
from pipeline.evaluation.protocol import evaluate
from pipeline.evaluation.ranks import request_of_groups
from pipeline.evaluation.score_file import SplitScores, read_scores, write_scores
from pipeline.evaluation.scores import BLOCK, Products, cuts
from pipeline.evaluation.truth import DIRECTIONS, group_codes

IMAGES, WIDTH, RESAMPLES = size((4_000, 512, 1_000), (20, 8, 5))
EACH = 5  # captions of an image
THREADS = 1
# How often all products are made: once to rank by, and as often as a criterion looks before that.
PASSES = {"naive": 1, "inverted_softmax": 2, "csls": 2}


def rows() -> Iterator[Row]:
    with new_folder() as folder:
        path = folder / "vse.h5"
        apart(write_embedded, path)
        split = read_scores(path, "test")
        of = f"{split.scores.shape[0]:,} x {split.scores.shape[1]:,} at {WIDTH}-d"
        for name, passes in PASSES.items():
            ours = partial(evaluate, split, 1, 0, 0.95, 0, [Criterion(name)])
            pair = paired_ratio(ours, partial(products_alone, split), runs=2)
            ratio = pair.processor / passes
            figure = f"{ratio:.2f}x of {passes} x the products ({pair.ours.processor:.1f} s, "
            figure += f"{pair.reference.processor:.1f} s each)"
            work = f"{name} of {of}, from embeddings, both directions"
            yield Row(work, figure, "<= 1.5x", ratio)
        codes = group_codes(split.image_groups, split.caption_groups)
        both = measured_of([request_of_groups(split.scores, *codes, way, 1) for way in DIRECTIONS])
        fold = MeasuredFold(dict(zip(DIRECTIONS, both, strict=True)), *codes)
        took = seconds(lambda: bootstrap_intervals([fold], RESAMPLES, 0.95, 0)).wall
        yield Row(f"bootstrap of {of}, {RESAMPLES:,} resamples", f"{took:.1f} s")
        peak, held = memory() / 1e9, 1e-9 * 4 * WIDTH * sum(split.scores.shape)
        work = "the same: peak of the process, the mapped embeddings included"
        yield Row(work, f"{peak:.2f} GB, {held:.2f} GB of it embeddings", "< 2 GB", peak)


def write_embedded(path: Path) -> None:
    """Random unit vectors, captions near their image."""
    pictures, texts = clustered(IMAGES, EACH, WIDTH, 4)
    ids, owners = [f"{n}.jpg" for n in range(IMAGES)], np.arange(len(texts)) // EACH
    labels = ids, [f"c{n}" for n in range(len(texts))], [ids[n] for n in owners], ids
    split = SplitScores(Products(pictures, texts), *labels, pictures, texts)
    write_scores(path, {"test": split}, {"model": "vse"})


def products_alone(split: SplitScores) -> None:
    """Every tile once, of embeddings in memory, into memory that is already there."""
    images, captions = map(np.asarray, (split.image_embeddings, split.caption_embeddings))
    out = torch.empty(BLOCK)
    for rows in cuts(len(images), BLOCK[0]):
        left = torch.from_numpy(images[rows].copy())
        for columns in cuts(len(captions), BLOCK[1]):
            right = torch.from_numpy(captions[columns].copy())
            torch.mm(left, right.T, out=out[: len(left), : len(right)])
