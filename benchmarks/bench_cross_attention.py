"""Cross attention in Gram form against the literal form, which builds the attended vectors.

The literal form goes caption by caption against all images, with batched products, as SCAN's
published code does: words repeated for every image, the attended vectors as columns. (With them
as rows, the form "rows", the same products take about half the time on a CPU.) Each form runs in a
process of its own on one thread. Stated are processor time and by how much the peak of memory grows
beyond the inputs; all must give the same scores but "bf16", the Gram form under training.precision
= bf16, whose largest difference is stated.
"""

from collections.abc import Callable

import numpy as np
import torch
from torch.nn import functional

from benchmarks.common import Row, apart, memory, one_thread, seconds, split_of, where_time_goes
from models.attention.scoring import score_pairs
from models.losses.max_margin import MaxMargin
from models.ranking.pairs import PairLoss
from models.scan.network import SCAN
from pipeline.inputs.regions import Regions

REGIONS, FEATURES, DIM, WORD_DIM, VOCABULARY = 36, 2048, 1024, 300, 8000
IMAGES, CAPTIONS, BATCH = 200, 1000, 128
CLOSE = 1e-5  # every score
PRECISIONS = {"gram": "fp32", "bf16": "bf16", "literal": "fp32", "rows": "fp32"}
FORMS = {
    "score": ("gram", "bf16", "literal", "rows"),
    "attention": ("gram", "literal"),
    "step": ("gram", "bf16", "literal"),
}
TITLES = {
    "attention": "SCAN's cross attention, forwards and backwards",
    "step": "SCAN's whole step with encoders and Adam",
}
Work = Callable[[], torch.Tensor]
Forms = dict[str, dict[str, float]]


def rows() -> list[Row]:
    """Scoring, and a step of training: the cross attention alone, and with encoders and Adam."""
    found = {work: measured_forms(work) for work in FORMS}
    return [
        _scoring(found["score"], "gram", 9, 5),
        _scoring(found["score"], "bf16", 20, 10),
        _training("attention", found["attention"], "gram", 3),
        _training("step", found["step"], "gram", 3),
        _training("step", found["step"], "bf16", 10),
    ]


def measured_forms(work: str) -> Forms:
    """Seconds and bytes of every form, and how far its scores are from those of the literal one."""
    found = {form: apart(_measured, work, form, threads=1) for form in FORMS[work]}
    literal = found["literal"][1]
    return {
        form: figures | {"apart": float(np.abs(scores - literal).max())}
        for form, (figures, scores) in found.items()
    }


def _measured(work: str, form: str) -> tuple[dict[str, float], np.ndarray]:
    figures, scores = measured(WORKS[work](form))
    return figures, scores.numpy()


def _row(work: str, title: str, found: Forms, form: str, wanted: dict, most: float) -> Row:
    """wanted: how many times less time than other forms is; most: bytes."""
    ours, exact = found[form], form != "bf16"
    ratios = {other: found[other]["seconds"] / ours["seconds"] for other in wanted}
    same = not exact or ours["apart"] <= CLOSE
    note = "" if same else "; SCORES DIFFER"
    note = note if exact else f"; scores differ by up to {ours['apart']:.1g}"
    reached = same and ours["bytes"] < most
    reached = reached and all(ratios[other] >= least for other, least in wanted.items())
    own, theirs = ours["bytes"] / 1e6, found["literal"]["bytes"] / 1e6
    slow, least = ratios["literal"], wanted["literal"]
    if work == "score":
        times = ", ".join(f"{found[name]['seconds']:.1f} s" for name in (form, *wanted))
        figure = f"{slow:.1f}x less CPU than the literal form, {ratios['rows']:.1f}x less than it "
        figure += f"with rows ({times}), {own:.0f} MB"
        target = f">= {least:g}x, >= {wanted['rows']:g}x, < 300 MB"
    else:
        times = ", ".join(f"{found[name]['seconds']:.2f} s" for name in (form, *wanted))
        figure = f"{slow:.1f}x less CPU than the literal form ({times}), {own / theirs:.2f} of its "
        figure += f"memory ({own:.0f} MB, {theirs:,.0f} MB)"
        target = f">= {least:g}x, <= 0.33"
    with one_thread():
        profile = "" if reached else where_time_goes(WORKS[work](form))
    return Row(f"{title}, {PRECISIONS[form]}", figure + note, target, reached, profile=profile)


def _scoring(found: Forms, form: str, columns: float, lines: float) -> Row:
    title = f"SCAN's scores of {IMAGES} images x {REGIONS} regions x {DIM:,}-d against "
    title += f"{CAPTIONS:,} captions of about 12 words"
    return _row("score", title, found, form, {"literal": columns, "rows": lines}, 300e6)


def _training(work: str, found: Forms, form: str, wanted: float) -> Row:
    title = f"training at batch {BATCH}, {TITLES[work]}"
    return _row(work, title, found, form, {"literal": wanted}, found["literal"]["bytes"] / 3)


class LiteralSCAN(SCAN):
    """The same scores from attended vectors, which are columns, or rows."""

    rows = False

    def score(
        self,
        regions: torch.Tensor,
        counts: torch.Tensor,
        words: torch.Tensor,
        lengths: torch.Tensor,
    ) -> torch.Tensor:
        """Similarity of every image with every caption, a column of images per caption."""
        columns = []
        for caption, length in zip(words, lengths.tolist(), strict=True):
            query = caption[:length].repeat(len(regions), 1, 1)
            cosines = functional.relu(torch.bmm(regions, query.transpose(1, 2)))
            affinity = functional.normalize(cosines, dim=2, eps=1e-8).transpose(1, 2)
            weights = torch.softmax(self.temperature * affinity.contiguous(), 2)
            if self.rows:
                attended = torch.bmm(weights, regions)
            else:
                across = weights.transpose(1, 2).contiguous()
                attended = torch.bmm(regions.transpose(1, 2), across).transpose(1, 2)
            norms = query.norm(dim=2) * attended.norm(dim=2)
            columns.append(((query * attended).sum(2) / norms.clamp_min(1e-8)).mean(1))
        return torch.stack(columns, 1)


class Given(SCAN):
    """SCAN whose regions and words are embedded already: tokens are rows of a table of captions."""

    table: torch.Tensor

    def embed_images(
        self, features: torch.Tensor, positions: torch.Tensor, counts: torch.Tensor
    ) -> torch.Tensor:
        return features

    def embed_captions(self, tokens: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        return self.table[tokens, : int(lengths.max())]


class LiteralGiven(Given, LiteralSCAN):
    """Both."""


def lengths_of(count: int) -> torch.Tensor:
    """Captions of 8 to 16 words, 12 on average."""
    return torch.randint(8, 17, (count,), generator=torch.Generator().manual_seed(1))


def unit(*shape: int) -> torch.Tensor:
    """Random unit vectors."""
    return functional.normalize(torch.randn(shape), dim=-1)


def score(form: str) -> Work:
    """Score a split of embedded regions and words as the stage does."""
    model, lengths = build(form, Given, LiteralGiven), lengths_of(CAPTIONS)
    model.table = unit(CAPTIONS, 16, DIM)
    regions, positions = unit(IMAGES, REGIONS, DIM), torch.zeros(IMAGES, REGIONS, 4)
    counts = torch.full((IMAGES,), REGIONS)
    split = split_of(
        IMAGES,
        CAPTIONS,
        lambda rows: Regions(regions[rows], positions[rows], counts[rows]),
        lambda rows: (torch.from_numpy(rows), lengths[rows]),
    )
    given = model, split, torch.device("cpu"), PRECISIONS[form]
    return lambda: torch.from_numpy(score_pairs(*given).scores)


def attention(form: str) -> Work:
    """Scores of a batch of embedded regions and words, and gradients with respect to both."""
    model, lengths = build(form, SCAN, LiteralSCAN), lengths_of(BATCH)
    regions, words = unit(BATCH, REGIONS, DIM), unit(BATCH, 16, DIM)
    regions.requires_grad_()
    words.requires_grad_()
    counts, towards = torch.full((BATCH,), REGIONS), torch.randn(BATCH, BATCH)

    def work() -> torch.Tensor:
        scores = model.score(regions, counts, words, lengths)
        scores.backward(towards)
        return scores.detach()

    return work


def step(form: str) -> Work:
    """One step of training from region features and word ids, hardest negatives."""
    model, lengths = build(form, SCAN, LiteralSCAN), lengths_of(BATCH)
    features, positions = torch.randn(BATCH, REGIONS, FEATURES), torch.zeros(BATCH, REGIONS, 4)
    tokens, counts = torch.randint(1, VOCABULARY, (BATCH, 16)), torch.full((BATCH,), REGIONS)
    loss, optimiser = PairLoss(MaxMargin(0.2)), torch.optim.Adam(model.parameters(), 5e-4)

    def work() -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16, enabled=form == "bf16"):
            scores = model(features, positions, counts, tokens, lengths)
        loss(scores, torch.arange(BATCH)).backward()
        optimiser.step()
        return scores.detach()

    return work


def build(form: str, gram: type[SCAN], literal: type[SCAN]) -> SCAN:
    """One of two models, with the same weights and random numbers after it."""
    torch.manual_seed(0)
    found = (gram if form in ("gram", "bf16") else literal)(FEATURES, VOCABULARY, WORD_DIM, DIM)
    if isinstance(found, LiteralSCAN):
        found.rows = form == "rows"
    return found


WORKS: dict[str, Callable[[str], Work]] = {"score": score, "attention": attention, "step": step}


def measured(work: Work) -> tuple[dict[str, float], torch.Tensor]:
    """Processor seconds, bytes by which the peak of memory grows, and the scores."""
    before, kept = memory(), []
    processor = seconds(lambda: kept.append(work())).processor
    return {"seconds": processor, "bytes": memory() - before}, kept[0]
