"""A training step of VSE against the published loop of VSE++, from the same weights and batch.

The published loop (Faghri et al. 2018) sorts a batch by descending length, runs nn.GRU over packed
sequences and gathers the last state, and takes the hinges of all pairs with the diagonal filled in;
here in today's PyTorch, sums over all negatives, gradients clipped at 2, Adam. Each form runs in a
process of its own; stated is processor time per step.
"""

import statistics
from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from benchmarks.common import Row, apart, one_thread, seconds, where_time_goes
from models.losses.sum_margin import SumMargin
from models.ranking.pairs import PairLoss
from models.vse.network import VSE

BATCH, FEATURES, DIM, WORD_DIM, VOCABULARY, WORDS = 128, 2048, 512, 300, 8000, 16
MARGIN, CLIP, RATE = 0.2, 2.0, 2e-4
STEPS, ROUNDS = 8, 4
CLOSE = 1e-4  # the loss of every step, relative
FORMS = {"fp32": 0.75, "bf16": 0.5}
Runs = list[tuple[list[float], float]]  # losses of the steps, and median seconds of a step


def rows() -> list[Row]:
    """A row per precision, on one thread."""
    found: dict[str, Runs] = {"published": [], "fp32": [], "bf16": []}
    for _ in range(ROUNDS):  # in turn, since what else the machine does changes
        for form, runs in found.items():
            runs.append(apart(_measured, form, threads=1))
    return [_row(form, found[form], found["published"]) for form in FORMS]


def _row(form: str, ours: Runs, theirs: Runs) -> Row:
    own, published = ([took for _, took in runs] for runs in (ours, theirs))
    ratio = statistics.median(one / other for one, other in zip(own, published, strict=True))
    losses = zip(ours[0][0], theirs[0][0], strict=True)
    apart_by = max(abs(one - other) / other for one, other in losses)
    reached = (form == "bf16" or apart_by <= CLOSE) and ratio <= FORMS[form]
    with one_thread():
        profile = "" if reached else where_time_goes(prepared(form))
    times = f"{1e3 * statistics.median(own):.0f} ms, {1e3 * statistics.median(published):.0f} ms"
    return Row(
        f"VSE's training step, batch {BATCH}, {DIM}-d, captions of about 12 words, {form}",
        f"{ratio:.2f}x of VSE++'s published loop ({times}); losses differ by {apart_by:.1g}",
        f"<= {FORMS[form]}x",
        reached,
        profile=profile,
    )


def _measured(form: str) -> tuple[list[float], float]:
    step, losses = prepared(form), []
    took = [seconds(lambda: losses.append(float(step()))).processor for _ in range(STEPS)]
    return losses, statistics.median(took[2:])


class Published(nn.Module):
    """The encoders of VSE++, on the parameters of ours: scores (B, B) of a batch."""

    def __init__(self, model: VSE) -> None:
        super().__init__()
        self.image, self.words = model.image_projection, model.text.words
        self.recurrent = model.text.recurrent

    def forward(
        self, images: torch.Tensor, tokens: torch.Tensor, lengths: torch.Tensor
    ) -> torch.Tensor:
        """As `VSE.forward`; the captions sorted by descending length."""
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
    model, loss = VSE(FEATURES, VOCABULARY, WORD_DIM, DIM, DIM), PairLoss(SumMargin(MARGIN))
    images = torch.randn(BATCH, FEATURES)
    tokens = torch.randint(1, VOCABULARY, (BATCH, WORDS))
    lengths = torch.randint(8, WORDS + 1, (BATCH,)).sort(descending=True).values
    groups, is_ours = torch.arange(BATCH), form != "published"
    trained = model if is_ours else Published(model)
    parameters = list(trained.parameters())
    optimiser = torch.optim.Adam(parameters, RATE, fused=True if is_ours else None)

    def step() -> torch.Tensor:
        optimiser.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=form == "bf16"):
            scores = trained(images, tokens, lengths)
            total = loss(scores, groups) if is_ours else published_loss(scores)
        total.backward()
        nn.utils.clip_grad_norm_(parameters, CLIP)
        optimiser.step()
        return total.detach()

    return step
