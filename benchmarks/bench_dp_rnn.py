"""DP-RNN's early selection against the recurrence of every pair, in training and in scoring.

Each way runs in a process of its own on one thread. Stated are processor time and by how much the
peak of memory grows, the model and the inputs included. How long 1,000 x 5,000 pairs of the
published sizes take is extrapolated from some of the captions.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import torch

from benchmarks.common import Row, apart, captions_of, cost, regions_of, seconds, size, split_of
from models.dp_rnn.model import CAPTION_BLOCK, DPRNN, DPRNNConfig
from models.losses.sum_margin import SumMargin
from models.ranking.pairs import PairLoss
from pipeline.inputs.split import Batch, Regions, Split, Words
from pipeline.training.trainer import Phase


class Sizes(NamedTuple):
    regions: int = 12
    features: int = 256
    dim: int = 128
    word_dim: int = 100
    vocabulary: int = 1000
    images: int = 100
    captions: int = 200


TINY = Sizes(3, 8, 8, 8, 20, 12, 6)
SOME = size(Sizes(), TINY)
PUBLISHED = size(Sizes(36, 2048, 1024, 300, 8000, 1_000, 5_000), TINY)
BATCH, CANDIDATES, SHORTLIST = size(64, 12), 10, 10
THREADS = 1


def rows() -> Iterator[Row]:
    work = f"DP-RNN's step at batch {BATCH}, {CANDIDATES} wrong images per caption"
    yield selecting(work, step, CANDIDATES, BATCH - 1, BATCH / (CANDIDATES + 1))
    work = f"DP-RNN's scores of {SOME.images} images and {SOME.captions} captions, "
    work += f"shortlist {SHORTLIST}"
    yield selecting(work, score, SHORTLIST, SOME.images, SOME.images / SHORTLIST)
    yield published()


def selecting(
    work: str, function: Callable[[int], object], selected: int, all_pairs: int, fewer: float
) -> Row:
    """fewer: how many times fewer pairs are computed with recurrence; half of it is wanted."""
    few, every = (apart(cost, partial(function, pairs))[0] for pairs in (selected, all_pairs))
    ratio, share = every.processor / few.processor, few.bytes / every.bytes
    return Row(
        work,
        f"{ratio:.1f}x less CPU than all pairs ({few.processor:.2f} s, {every.processor:.2f} s; "
        f"{fewer:.1f}x fewer pairs), {share:.2f} of their memory ({few.bytes / 1e6:.0f} MB, "
        f"{every.bytes / 1e6:.0f} MB)",
        f">= {fewer / 2:.1f}x",
        ratio,
    )


def published() -> Row:
    """Processor time of scoring 1,000 images and 5,000 captions at the published sizes.

    Captions are scored in blocks, each with all images: two blocks and one tell what one takes.
    """
    one_block, two_blocks = (
        partial(score, SHORTLIST, PUBLISHED._replace(captions=count))
        for count in (CAPTION_BLOCK, 2 * CAPTION_BLOCK)
    )
    score(SHORTLIST, PUBLISHED._replace(images=100, captions=32))  # a warm-up
    first, both = seconds(one_block).processor, seconds(two_blocks).processor
    minutes = (first + (PUBLISHED.captions / CAPTION_BLOCK - 1) * (both - first)) / 60
    return Row(
        f"DP-RNN's scores of {PUBLISHED.images:,} images x {PUBLISHED.regions} regions x "
        f"{PUBLISHED.dim:,}-d and {PUBLISHED.captions:,} captions, shortlist {SHORTLIST}, one "
        "thread, random weights",
        f"{minutes:.0f} CPU-minutes, extrapolated from {CAPTION_BLOCK} and {2 * CAPTION_BLOCK} captions: "
        f"{first:.0f} s and {both:.0f} s",
        "<= 11 CPU-minutes",
        minutes,
        one_block,
    )


def build(candidates: int, sizes: Sizes = SOME) -> DPRNN:
    torch.manual_seed(0)
    of = sizes.features, sizes.vocabulary, sizes.word_dim, sizes.dim
    model = DPRNN(*of, candidates=candidates)
    model.enter_phase("all")
    return model


def step(candidates: int) -> None:
    model, groups = build(candidates), torch.arange(BATCH)
    regions = regions_of(BATCH, SOME.regions, SOME.features)
    sides = regions.features, regions.positions, regions.counts
    outputs = model(*sides, *captions_of(BATCH, SOME.vocabulary), groups)
    loss = PairLoss(SumMargin(0.2))
    torch.stack([loss(scores, groups, computed) for scores, computed in outputs]).sum().backward()


def score(shortlist: int, sizes: Sizes = SOME) -> None:
    model = build(CANDIDATES, sizes)
    regions = regions_of(sizes.images, sizes.regions, sizes.features)
    split = split_of(regions, *captions_of(sizes.captions, sizes.vocabulary))
    score_selecting(model, split, torch.device("cpu"), shortlist)
