"""Cross attention in Gram form against the literal form, which builds the attended vectors.

The literal form goes caption by caption against all images, with batched products, as SCAN's
published code does: words repeated for every image, the attended vectors as columns. (With them
as rows, the form "rows", the same products take about half the time on a CPU.) Each form runs in a
process of its own on one thread. Stated are processor time and by how much the peak of memory grows
beyond the inputs; all must give the same scores but "bf16", the Gram form under training.precision
= bf16, whose largest difference is stated.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from torch.nn import functional

from benchmarks.common import Row, one_thread, where_time_goes
from models.attention.scoring import score_pairs
from models.losses.max_margin import MaxMargin
from models.ranking.pairs import PairLoss
from models.scan.network import SCAN
from pipeline.inputs.batches import Split
from pipeline.inputs.regions import Regions
from pipeline.runtime.repeatable import set_threads

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
Model = TypeVar("Model", bound=SCAN)
Work = Callable[[], torch.Tensor]


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


def measured_forms(work: str) -> dict[str, dict[str, float]]:
    """Seconds and bytes of every form, and how far its scores are from those of the literal one."""
    with tempfile.TemporaryDirectory() as folder:
        found = {form: _measured(work, form, folder) for form in FORMS[work]}
        scores = {form: np.load(Path(folder) / f"{work}_{form}.npy") for form in found}
    for form, figures in found.items():
        figures["apart"] = float(np.abs(scores[form] - scores["literal"]).max())
    return found


def _agreement(ours: dict[str, float], form: str) -> tuple[bool, str]:
    if form == "bf16":
        return True, f"; scores differ by up to {ours['apart']:.1g}"
    return ours["apart"] <= CLOSE, "" if ours["apart"] <= CLOSE else "; SCORES DIFFER"


def _scoring(found: dict[str, dict[str, float]], form: str, columns: float, lines: float) -> Row:
    """columns, lines: how many times less time than either literal form is wanted."""
    ours = found[form]
    same, note = _agreement(ours, form)
    slow, fast = (found[other]["seconds"] / ours["seconds"] for other in ("literal", "rows"))
    reached = same and slow >= columns and fast >= lines and ours["bytes"] < 300e6
    return Row(
        f"SCAN's scores of {IMAGES} images x {REGIONS} regions x {DIM:,}-d against {CAPTIONS:,} "
        f"captions of about 12 words, {PRECISIONS[form]}",
        f"{slow:.1f}x less CPU than the literal form, {fast:.1f}x less than it with rows "
        f"({ours['seconds']:.1f} s, {found['literal']['seconds']:.1f} s, "
        f"{found['rows']['seconds']:.1f} s), {ours['bytes'] / 1e6:.0f} MB{note}",
        f">= {columns:g}x, >= {lines:g}x, < 300 MB",
        reached,
        profile="" if reached else profile("score", form),
    )


def _training(work: str, found: dict[str, dict[str, float]], form: str, wanted: float) -> Row:
    ours, theirs = found[form], found["literal"]
    ratio, share = theirs["seconds"] / ours["seconds"], ours["bytes"] / theirs["bytes"]
    same, note = _agreement(ours, form)
    reached = same and ratio >= wanted and share <= 1 / 3
    return Row(
        f"training at batch {BATCH}, {TITLES[work]}, {PRECISIONS[form]}",
        f"{ratio:.1f}x less CPU than the literal form ({ours['seconds']:.2f} s, "
        f"{theirs['seconds']:.2f} s), {share:.2f} of its memory ({ours['bytes'] / 1e6:.0f} MB, "
        f"{theirs['bytes'] / 1e6:,.0f} MB){note}",
        f">= {wanted:g}x, <= 0.33",
        reached,
        profile="" if reached else profile(work, form),
    )


def _measured(work: str, form: str, folder: str) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.bench_cross_attention", work, form, folder]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


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
        """The regions as they are."""
        return features

    def embed_captions(self, tokens: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Rows of the table."""
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
    split = Split(
        image_ids=[str(i) for i in range(IMAGES)],
        image_groups=[str(i) for i in range(IMAGES)],
        caption_ids=[str(i) for i in range(CAPTIONS)],
        described=torch.arange(CAPTIONS).numpy() % IMAGES,
        images=lambda rows: Regions(regions[rows], positions[rows], counts[rows]),
        captions=lambda rows: (torch.from_numpy(rows), lengths[rows]),
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


def build(form: str, gram: type[Model], literal: type[Model]) -> Model:
    """One of two models, with the same weights and random numbers after it."""
    torch.manual_seed(0)
    found = (gram if form in ("gram", "bf16") else literal)(FEATURES, VOCABULARY, WORD_DIM, DIM)
    if isinstance(found, LiteralSCAN):
        found.rows = form == "rows"
    return found


WORKS: dict[str, Callable[[str], Work]] = {"score": score, "attention": attention, "step": step}


def profile(work: str, form: str) -> str:
    """Where the time of a form goes, on one thread as it was measured."""
    with one_thread():
        return where_time_goes(WORKS[work](form))


def measured(work: Callable[[], torch.Tensor]) -> tuple[dict[str, float], torch.Tensor]:
    """Processor seconds, bytes by which the peak of memory grows, and the scores."""
    before, start = peak(), time.process_time()
    scores = work()
    seconds = time.process_time() - start
    return {"seconds": seconds, "bytes": peak() - before}, scores


def peak() -> int:
    """Largest resident size of this process so far; getrusage would include its parent's."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.split("VmHWM:")[1].split()[0])


if __name__ == "__main__":
    set_threads(1)
    work, form, folder = sys.argv[1:]
    figures, scores = measured(WORKS[work](form))
    np.save(Path(folder) / f"{work}_{form}.npy", scores.numpy())
    print(json.dumps(figures))
