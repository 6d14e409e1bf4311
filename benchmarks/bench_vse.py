"""A training step of VSE against the published loop of VSE++, from the same weights and batch.

The published loop (Faghri et al. 2018) sorts a batch by falling length, runs nn.GRU over packed
sequences and gathers the last state, and takes the hinges of all pairs with the diagonal filled in;
here in today's PyTorch, sums over all negatives, gradients clipped at 2, Adam. Each form runs in a
process of its own; stated is processor time per step.
"""

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from benchmarks.common import Row, one_thread, where_time_goes
from models.losses.sum_margin import SumMargin
from models.ranking.pairs import PairLoss
from models.vse.network import VSE
from pipeline.runtime.repeatable import set_threads

BATCH, FEATURES, DIM, WORD_DIM, VOCABULARY, WORDS = 128, 2048, 512, 300, 8000, 16
MARGIN, CLIP, RATE = 0.2, 2.0, 2e-4
STEPS, ROUNDS = 8, 4
CLOSE = 1e-4  # the loss of every step, relative
FORMS = {"fp32": 0.75, "bf16": 0.5}


def rows() -> list[Row]:
    """A row per precision, on one thread."""
    found: dict[str, list[dict[str, list[float]]]] = {"published": [], "fp32": [], "bf16": []}
    for _ in range(ROUNDS):  # in turn, since what else the machine does changes
        for form, runs in found.items():
            runs.append(_measured(form))
    return [_row(form, found[form], found["published"]) for form in FORMS]


def _row(
    form: str, ours: list[dict[str, list[float]]], theirs: list[dict[str, list[float]]]
) -> Row:
    seconds = [[statistics.median(run["seconds"]) for run in runs] for runs in (ours, theirs)]
    ratio = statistics.median(one / other for one, other in zip(*seconds, strict=True))
    pairs = zip(ours[0]["losses"], theirs[0]["losses"], strict=True)
    apart = max(abs(one - other) / other for one, other in pairs)
    same = form == "bf16" or apart <= CLOSE
    reached = same and ratio <= FORMS[form]
    with one_thread():
        profile = "" if reached else where_time_goes(prepared(form))
    own, published = (1e3 * statistics.median(column) for column in seconds)
    return Row(
        f"VSE's training step, batch {BATCH}, {DIM}-d, captions of about 12 words, {form}",
        f"{ratio:.2f}x of VSE++'s published loop ({own:.0f} ms, {published:.0f} ms); losses differ "
        f"by {apart:.1g}",
        f"<= {FORMS[form]}x",
        reached,
        profile=profile,
    )


def _measured(form: str) -> dict[str, list[float]]:
    command = [sys.executable, "-m", "benchmarks.bench_vse", form]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


class Published(nn.Module):
    """The encoders of VSE++, on the parameters of ours: scores (B, B) of a batch."""

    def __init__(self, model: VSE) -> None:
        super().__init__()
        self.image, self.words = model.image_projection, model.text.words
        self.recurrent = model.text.recurrent

    def forward(
        self, images: torch.Tensor, tokens: torch.Tensor, lengths: torch.Tensor
    ) -> torch.Tensor:
        """As `VSE.forward`; the captions sorted by falling length."""
        left = functional.normalize(self.image(images), dim=1)
        packed = pack_padded_sequence(self.words(tokens), lengths, batch_first=True)
        states, _ = pad_packed_sequence(self.recurrent(packed)[0], batch_first=True)
        last = (lengths - 1)[:, None, None].expand(-1, 1, states.shape[2])
        return left @ functional.normalize(states.gather(1, last)[:, 0], dim=1).T


def published_loss(scores: torch.Tensor) -> torch.Tensor:
    """Sum of the hinges of all negatives, both directions."""
    diagonal = scores.diag()[:, None]
    own = torch.eye(len(scores)) > 0.5
    captions = (MARGIN + scores - diagonal.expand_as(scores)).clamp(min=0)
    images = (MARGIN + scores - diagonal.t().expand_as(scores)).clamp(min=0)
    return captions.masked_fill_(own, 0).sum() + images.masked_fill_(own, 0).sum()


def prepared(form: str) -> Callable[[], torch.Tensor]:
    """A step of training with the same weights and batch in every form."""
    torch.manual_seed(0)
    model = VSE(FEATURES, VOCABULARY, WORD_DIM, DIM, DIM)
    images = torch.randn(BATCH, FEATURES)
    tokens = torch.randint(1, VOCABULARY, (BATCH, WORDS))
    lengths = torch.randint(8, WORDS + 1, (BATCH,)).sort(descending=True).values
    groups = torch.arange(BATCH)
    if form == "published":
        theirs = Published(model)
        optimiser = torch.optim.Adam(theirs.parameters(), RATE)
        parameters = list(theirs.parameters())
    else:
        ours, loss = PairLoss(SumMargin(MARGIN)), form
        optimiser = torch.optim.Adam(model.parameters(), RATE, fused=True)
        parameters = list(model.parameters())

    def step() -> torch.Tensor:
        optimiser.zero_grad()
        if form == "published":
            total = published_loss(theirs(images, tokens, lengths))
        else:
            with torch.autocast("cpu", torch.bfloat16, enabled=loss == "bf16"):
                total = ours(model(images, tokens, lengths), groups)
        total.backward()
        nn.utils.clip_grad_norm_(parameters, CLIP)
        optimiser.step()
        return total.detach()

    return step


if __name__ == "__main__":
    set_threads(1)
    step = prepared(sys.argv[1])
    losses, seconds = [], []
    for _ in range(STEPS):
        start = time.process_time()
        losses.append(float(step()))
        seconds.append(time.process_time() - start)
    print(json.dumps({"losses": losses, "seconds": seconds[2:]}))
