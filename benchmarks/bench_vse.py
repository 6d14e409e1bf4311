"""A training step of VSE against the published loop of VSE++, from the same weights and batch.

The published loop (Faghri et al. 2018) sorts a batch by descending length, runs nn.GRU over packed
sequences and gathers the last state, and takes the hinges of all pairs with the diagonal filled in;
here in today's PyTorch, sums over all negatives, gradients clipped at 2, Adam. Stated is
processor time per step.
"""

from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from benchmarks.common import Row, captions_of, paired_ratio, size
from models.layers.sets import GPO, MaxPool, MeanPool
from models.losses import PairLoss
from models.losses.sum_margin import SumMargin
from models.vse import VSE, VSEConfig
from pipeline.features.split import Words

BATCH, FEATURES, DIM = size((128, 2048, 512), (4, 8, 6))
WORD_DIM, VOCABULARY = size((300, 8000), (4, 20))
REGIONS, POOLED = size((36, 1024), (3, 6))
MARGIN, CLIP, RATE = 0.2, 2.0, 2e-4
STEPS, RUNS = size((8, 24), (3, 1))
THREADS = 1
CLOSE = 1e-4  # the loss of every step in fp32, relative


def rows() -> Iterator[Row]:
    for form, limit in (("fp32", 0.75), ("bf16", 0.5)):
        ours, published = prepared(form), prepared("published")
        losses = np.array([[float(ours()), float(published())] for _ in range(STEPS)])
        if form == "fp32":
            np.testing.assert_allclose(*losses.T, rtol=CLOSE)
        differ = np.abs(losses[:, 0] / losses[:, 1] - 1).max()
        pair = paired_ratio(ours, published, RUNS)
        step, loop = 1e3 * pair.ours.processor, 1e3 * pair.reference.processor
        work = f"VSE's training step, batch {BATCH}, {DIM}-d, captions of about 12 words, {form}"
        figure = f"{pair.processor:.2f}x of VSE++'s published loop ({step:.0f} ms, {loop:.0f} ms)"
        figure += f"; losses differ by {differ:.1g}"
        yield Row(work, figure, f"<= {limit}x", pair.processor, ours)
    gpo = pooling(GPO())
    mean, largest = (paired_ratio(gpo, pooling(pool), RUNS) for pool in (MeanPool(), MaxPool()))
    figure = f"{mean.processor:.1f}x of a mean, {largest.processor:.1f}x of a maximum"
    work = f"the generalised pooling operator and its gradient, {BATCH} x {REGIONS} x {POOLED}"
    yield Row(work, figure, "<= 1.3x", mean.processor, gpo)


def pooling(pool: nn.Module) -> Callable[[], tuple[torch.Tensor, ...]]:
    items = torch.randn(BATCH, REGIONS, POOLED, requires_grad=True)
    counts, sent = torch.full((BATCH,), REGIONS), torch.randn(BATCH, POOLED)
    return lambda: torch.autograd.grad(pool(items, counts), items, sent)


class Published(nn.Module):
    """The encoders of VSE++, on the parameters of ours: scores (B, B) of a batch."""

    def __init__(self, model: VSE) -> None:
        super().__init__()
        self.image, self.words = model.image_projection, model.text.words
        self.recurrent = model.text.recurrent

    def forward(self, images: torch.Tensor, captions: Words) -> torch.Tensor:
        """Scores (B, B); the captions sorted by descending length."""
        tokens, lengths = captions
        left = functional.normalize(self.image(images), dim=1)
        packed = pack_padded_sequence(self.words(tokens), lengths, batch_first=True)
        states, _ = pad_packed_sequence(self.recurrent(packed)[0], batch_first=True)
        last = (lengths.to(states.device) - 1)[:, None, None].expand(-1, 1, states.shape[2])
        return left @ functional.normalize(states.gather(1, last)[:, 0], dim=1).T


def published_loss(scores: torch.Tensor) -> torch.Tensor:
    """Sum of the hinges of all negatives, both directions."""
    diagonal = scores.diag()[:, None]
    pairs = torch.eye(len(scores), device=scores.device) > 0.5
    captions = (MARGIN + scores - diagonal.expand_as(scores)).clamp(min=0)
    images = (MARGIN + scores - diagonal.t().expand_as(scores)).clamp(min=0)
    return captions.masked_fill_(pairs, 0).sum() + images.masked_fill_(pairs, 0).sum()


def prepared(form: str) -> Callable[[], torch.Tensor]:
    """A step of training with the same weights and batch in every form."""
    torch.manual_seed(0)
    config = VSEConfig(word_dim=WORD_DIM, hidden=DIM, dim=DIM)
    model = VSE(config, FEATURES, VOCABULARY)
    loss = PairLoss(SumMargin(MARGIN))
    images = torch.randn(BATCH, FEATURES)
    tokens, lengths = captions_of(BATCH, VOCABULARY)
    lengths = lengths.sort(descending=True).values
    groups, is_ours = torch.arange(BATCH), form != "published"
    captions = Words(tokens, lengths)
    trained = model if is_ours else Published(model)

    def scores_of_batch() -> torch.Tensor:
        if not is_ours:
            published: torch.Tensor = trained(images, captions)
            return published
        return model.score(model.embed_images(images), model.embed_captions(captions))

    parameters = list(trained.parameters())
    optimiser = torch.optim.Adam(parameters, RATE, fused=True if is_ours else None)

    def step() -> torch.Tensor:
        optimiser.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=form == "bf16"):
            scores = scores_of_batch()
            total = loss(scores, groups) if is_ours else published_loss(scores)
        total.backward()
        nn.utils.clip_grad_norm_(parameters, CLIP)
        optimiser.step()
        return total.detach()

    return step
