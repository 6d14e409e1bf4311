"""DP-RNN's early selection against the recurrence of every pair, in training and in scoring.

Each way runs in a process of its own on one thread. Stated are processor time and by how much the
peak of memory grows, the model and the inputs included. How long 1,000 x 5,000 pairs of the
published sizes take is extrapolated from some of the captions.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
import torch

from benchmarks.common import Row, apart, captions_of, cost, regions_of, seconds, size, split_of
from models.dp_rnn.model import CAPTION_BLOCK, DPRNN, DPRNNConfig
from models.losses import PairLoss
from models.losses.sum_margin import SumMargin
from pipeline.features.split import PairBatches, Split


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
        f"{minutes:.0f} CPU-minutes, extrapolated from {CAPTION_BLOCK} and {2 * CAPTION_BLOCK} "
        f"captions: {first:.0f} s and {both:.0f} s",
        "<= 11 CPU-minutes",
        minutes,
        one_block,
    )


def build(candidates: int, sizes: Sizes = SOME) -> DPRNN:
    torch.manual_seed(0)
    config = DPRNNConfig(
        word_dim=sizes.word_dim,
        dim=sizes.dim,
        beta_words=0.3,
        beta_objects=0.3,
        candidates=candidates,
    )
    model = DPRNN(config, image_dim=sizes.features, vocabulary_size=sizes.vocabulary)
    model.recurrence.fill_(1)  # as in the last phase
    return model


def inputs(images: int, captions: int, sizes: Sizes) -> Split:
    """A split of so many images and captions, of these sizes."""
    regions = regions_of(images, sizes.regions, sizes.features)
    return split_of(regions, captions_of(captions, sizes.vocabulary))


def step(candidates: int) -> None:
    """The gradients of one batch for both networks, which are trained one after the other."""
    model = build(candidates)
    batch = PairBatches(inputs(BATCH, BATCH, SOME), size=BATCH, seed=0).batch(np.arange(BATCH))
    loss = PairLoss(SumMargin(0.2))
    for name in model.towers:
        network = model.single(name)
        images = network.embed_images(batch.images)
        captions = network.embed_captions(batch.captions)
        pairs = network.pairs(images, captions, batch, torch.arange(BATCH))
        loss(pairs.scores, batch.image_groups, pairs.computed).backward()


def score(shortlist: int, sizes: Sizes = SOME) -> None:
    model = build(CANDIDATES, sizes)
    model.shortlist = shortlist
    model.score_split(inputs(sizes.images, sizes.captions, sizes))
