"""DP-RNN's early selection against the recurrence of every pair, in training and in scoring.

Each way runs in a process of its own on one thread. Stated are processor time and by how much the
peak of memory grows, the model and the inputs included. How long 1,000 x 5,000 pairs of the
published sizes take is extrapolated from some of the captions.
"""

from functools import partial
from typing import NamedTuple

import torch

from benchmarks.bench_cross_attention import measured
from benchmarks.common import Row, apart, one_thread, seconds, split_of, where_time_goes
from models.dp_rnn.network import DPRNN
from models.dp_rnn.scoring import CAPTIONS, score_selecting
from models.losses.sum_margin import SumMargin
from models.ranking.pairs import PairLoss
from pipeline.inputs.regions import Regions


class Sizes(NamedTuple):
    """Of a split and of the model that scores it."""

    regions: int = 12
    features: int = 256
    dim: int = 128
    word_dim: int = 100
    vocabulary: int = 1000
    images: int = 100
    captions: int = 200


SMALL, PUBLISHED = Sizes(), Sizes(36, 2048, 1024, 300, 8000, 1_000, 5_000)
WORDS, BATCH, CANDIDATES, SHORTLIST = 16, 64, 10, 10
MINUTES = 11


def rows() -> list[Row]:
    """A step of training with everything learning, and scores of a split."""
    step_work = f"DP-RNN's step at batch {BATCH}, {CANDIDATES} wrong images per caption"
    score_work = f"DP-RNN's scores of {SMALL.images} images and {SMALL.captions} captions, "
    score_work += f"shortlist {SHORTLIST}"
    return [
        _row(step_work, step, CANDIDATES, BATCH - 1, BATCH / (CANDIDATES + 1)),
        _row(score_work, score, SHORTLIST, SMALL.images, SMALL.images / SHORTLIST),
        published(),
    ]


def published() -> Row:
    """Processor time of scoring 1,000 images and 5,000 captions at the published sizes.

    Captions are scored in blocks, each with all images: two blocks and one tell what one takes.
    """
    sizes = PUBLISHED._replace(captions=CAPTIONS), PUBLISHED._replace(captions=2 * CAPTIONS)
    with one_thread():
        score(SHORTLIST, PUBLISHED._replace(images=100, captions=32))  # a warm-up
        one, two = (seconds(partial(score, SHORTLIST, size)).processor for size in sizes)
        minutes = (one + (PUBLISHED.captions / CAPTIONS - 1) * (two - one)) / 60
        profile = where_time_goes(partial(score, SHORTLIST, sizes[0])) if minutes > MINUTES else ""
    return Row(
        f"DP-RNN's scores of {PUBLISHED.images:,} images x {PUBLISHED.regions} regions x "
        f"{PUBLISHED.dim:,}-d and {PUBLISHED.captions:,} captions, shortlist {SHORTLIST}, one "
        "thread, random weights",
        f"{minutes:.0f} CPU-minutes, extrapolated from {CAPTIONS} and {2 * CAPTIONS} captions: "
        f"{one:.0f} s and {two:.0f} s",
        f"<= {MINUTES} CPU-minutes",
        minutes <= MINUTES,
        profile=profile,
    )


def _row(title: str, work, selected: int, all_pairs: int, fewer: float) -> Row:
    """fewer: how many times fewer pairs are computed with recurrence; half of it is wanted."""
    few, every = (apart(_measured, work, pairs, threads=1) for pairs in (selected, all_pairs))
    ratio, share = every["seconds"] / few["seconds"], few["bytes"] / every["bytes"]
    return Row(
        title,
        f"{ratio:.1f}x less CPU than all pairs ({few['seconds']:.2f} s, {every['seconds']:.2f} s; "
        f"{fewer:.1f}x fewer pairs), {share:.2f} of their memory ({few['bytes'] / 1e6:.0f} MB, "
        f"{every['bytes'] / 1e6:.0f} MB)",
        f">= {fewer / 2:.1f}x",
        ratio >= fewer / 2,
    )


def _measured(work, pairs: int) -> dict[str, float]:
    return measured(partial(work, pairs))[0]


def build(candidates: int, sizes: Sizes = SMALL) -> DPRNN:
    """A model of random weights in its last phase."""
    torch.manual_seed(0)
    of = sizes.features, sizes.vocabulary, sizes.word_dim, sizes.dim
    model = DPRNN(*of, candidates=candidates)
    model.enter_phase("all")
    return model


def captions(count: int, sizes: Sizes = SMALL) -> tuple[torch.Tensor, torch.Tensor]:
    """Word ids (count, WORDS) of 8 to 16 words, and their lengths."""
    words = torch.randint(1, sizes.vocabulary, (count, WORDS))
    return words, torch.randint(8, WORDS + 1, (count,))


def images(count: int, sizes: Sizes = SMALL) -> Regions:
    """Random regions, none of them padding."""
    shape = count, sizes.regions
    counts = torch.full((count,), sizes.regions)
    return Regions(torch.randn(*shape, sizes.features), torch.rand(*shape, 4), counts)


def step(candidates: int) -> torch.Tensor:
    """Losses and gradients of one batch."""
    model, regions, groups = build(candidates), images(BATCH), torch.arange(BATCH)
    sides = regions.features, regions.positions, regions.counts, *captions(BATCH)
    loss = PairLoss(SumMargin(0.2))
    each = [loss(scores, groups, computed) for scores, computed in model(*sides, groups)]
    total = torch.stack(each).sum()
    total.backward()
    return total.detach()


def score(shortlist: int, sizes: Sizes = SMALL) -> torch.Tensor:
    """Scores of a split of random images and captions."""
    model, own = build(CANDIDATES, sizes), images(sizes.images, sizes)
    tokens, lengths = captions(sizes.captions, sizes)
    split = split_of(
        sizes.images,
        sizes.captions,
        lambda rows: Regions(own.features[rows], own.positions[rows], own.counts[rows]),
        lambda rows: (tokens[rows], lengths[rows]),
    )
    found = score_selecting(model, split, torch.device("cpu"), shortlist)
    return torch.from_numpy(found.scores)
