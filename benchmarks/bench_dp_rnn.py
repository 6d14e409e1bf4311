"""DP-RNN's early selection against the recurrence of every pair, in training and in scoring.

Each way runs in a process of its own on one thread. Stated are processor time and by how much the
peak of memory grows, the model and the inputs included.
"""

import json
import subprocess
import sys
from functools import partial

import torch

from benchmarks.bench_cross_attention import measured
from benchmarks.common import Row
from models.dp_rnn.network import DPRNN
from models.dp_rnn.scoring import score_selecting
from models.losses.pairs import PairLoss
from models.losses.sum_margin import SumMargin
from pipeline.inputs.batches import Split
from pipeline.inputs.regions import Regions
from pipeline.runtime.process import set_threads

REGIONS, FEATURES, DIM, WORD_DIM, VOCABULARY, WORDS = 12, 256, 128, 100, 1000, 16
BATCH, CANDIDATES = 64, 10
IMAGES, CAPTIONS, SHORTLIST = 100, 200, 10


def rows() -> list[Row]:
    """A step of training with everything learning, and scores of a split."""
    selected = f"{CANDIDATES} wrong images per caption"
    return [
        _row(f"DP-RNN's step at batch {BATCH}, {selected}", "step", BATCH / (CANDIDATES + 1)),
        _row(
            f"DP-RNN's scores of {IMAGES} images and {CAPTIONS} captions, shortlist {SHORTLIST}",
            "score",
            IMAGES / SHORTLIST,
        ),
    ]


def _row(work: str, name: str, fewer: float) -> Row:
    """fewer: how many times fewer pairs are computed with recurrence; half of it is wanted."""
    few, every = (_measured(name, way) for way in ("selected", "every"))
    ratio, share = every["seconds"] / few["seconds"], few["bytes"] / every["bytes"]
    return Row(
        work,
        f"{ratio:.1f}x less CPU than all pairs ({few['seconds']:.2f} s, {every['seconds']:.2f} s; "
        f"{fewer:.1f}x fewer pairs), {share:.2f} of their memory ({few['bytes'] / 1e6:.0f} MB, "
        f"{every['bytes'] / 1e6:.0f} MB)",
        f">= {fewer / 2:.1f}x",
        ratio >= fewer / 2,
    )


def _measured(work: str, way: str) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.bench_dp_rnn", work, way]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def build(candidates: int) -> DPRNN:
    """A model of random weights in its last phase."""
    torch.manual_seed(0)
    model = DPRNN(FEATURES, VOCABULARY, WORD_DIM, DIM, candidates=candidates)
    model.enter_phase("all")
    return model


def captions(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Word ids (count, WORDS) of 8 to 16 words, and their lengths."""
    return torch.randint(1, VOCABULARY, (count, WORDS)), torch.randint(8, WORDS + 1, (count,))


def images(count: int) -> Regions:
    """Random regions, none of them padding."""
    shape = count, REGIONS
    counts = torch.full((count,), REGIONS)
    return Regions(torch.randn(*shape, FEATURES), torch.rand(*shape, 4), counts)


def step(candidates: int) -> torch.Tensor:
    """Losses and gradients of one batch."""
    model, regions, groups = build(candidates), images(BATCH), torch.arange(BATCH)
    sides = regions.features, regions.positions, regions.counts, *captions(BATCH)
    loss = PairLoss(SumMargin(0.2))
    total = torch.stack([loss(*pairs, groups) for pairs in model(*sides, groups)]).sum()
    total.backward()
    return total.detach()


def score(shortlist: int) -> torch.Tensor:
    """Scores of a split of random images and captions."""
    model, regions = build(CANDIDATES), images(IMAGES)
    tokens, lengths = captions(CAPTIONS)
    split = Split(
        image_ids=[str(i) for i in range(IMAGES)],
        image_groups=[str(i) for i in range(IMAGES)],
        caption_ids=[str(i) for i in range(CAPTIONS)],
        described=torch.arange(CAPTIONS).numpy() % IMAGES,
        images=lambda rows: Regions(
            regions.features[rows], regions.positions[rows], regions.counts[rows]
        ),
        captions=lambda rows: (tokens[rows], lengths[rows]),
    )
    found = score_selecting(model, split, torch.device("cpu"), shortlist)
    return torch.from_numpy(found.scores)


if __name__ == "__main__":
    set_threads(1)
    works = {
        "step": {"selected": partial(step, CANDIDATES), "every": partial(step, BATCH - 1)},
        "score": {"selected": partial(score, SHORTLIST), "every": partial(score, IMAGES)},
    }
    print(json.dumps(measured(works[sys.argv[1]][sys.argv[2]])[0]))
