"""The instance loss at MS-COCO's size: peak memory and time, both branches, full and sampled.

Memory is the growth of a fresh process's peak over forward and backward, after a small run; the
classifier itself, of 928 MB, is there before. `two products` is the obvious form: the same
classifier applied to each branch by itself.
"""

from collections.abc import Callable

import torch
from torch.nn import functional

from benchmarks.common import Row, apart, grown, paired_ratio
from models.dual_path.instance import InstanceLoss

CLASSES, DIM, BATCH, SAMPLED = 113_287, 2_048, 32, 4_096
SMALL = 20_000  # classes for timing: the ratio is the same, and a run short
CLASSIFIER = 4 * CLASSES * DIM


def rows() -> list[Row]:
    """Peak memory of all forms at full size, and times of one product and of the sample."""
    found = {form: apart(_grown, form) for form in ("one", "two", "step", "sampled")}
    title = f"classifier of {CLASSES:,} x {DIM:,} (928 MB), both branches at batch {BATCH}"
    one, total = found["one"] / CLASSIFIER, (found["step"] + CLASSIFIER) / 1e9
    return [
        Row(
            f"{title}: memory of forward and backward",
            f"{found['one'] / 1e6:.0f} MB, {one:.2f} of the classifier; two products "
            f"{found['two'] / 1e6:.0f} MB",
            "<= 1.2 of the classifier",
            one <= 1.2,
        ),
        Row(
            f"{title}: peak with a step of SGD, momentum 0.9, fused",
            f"{total:.2f} GB, the classifier included",
            "<= 3.2 classifiers (2.97 GB)",
            total <= 3.2 * CLASSIFIER / 1e9,
        ),
        Row(
            f"{title}: memory with {SAMPLED:,} classes sampled, a sparse step included",
            f"{found['sampled'] / 1e6:.0f} MB",
            "<= 6 samples of rows (201 MB)",
            found["sampled"] <= 6 * 4 * SAMPLED * DIM,
        ),
        times("one", "two"),
        times("sampled", "one"),
    ]


def times(ours: str, reference: str) -> Row:
    """Time of a form beside another's, forward and backward."""
    runs = [work(form, SMALL) for form in (ours, reference)]
    pair = paired_ratio(*runs, runs=3)
    names = {"one": "one product", "two": "two products", "sampled": f"{SAMPLED:,} sampled"}
    title = f"forward and backward of {SMALL:,} classes x {DIM:,}, batch {BATCH}: {names[ours]}"
    return pair.at_most(title, 1, names[reference], runs[0])


def work(form: str, classes: int, dim: int = DIM) -> Callable[[], None]:
    """One step of a form on random features; the classifier is made here."""
    torch.manual_seed(0)
    loss = InstanceLoss(classes, dim, sampled=SAMPLED if form == "sampled" else 0)
    images, captions = (torch.randn(BATCH, dim, requires_grad=True) for _ in range(2))
    labels = torch.randint(classes, (BATCH,))
    momentum = 0.9 if form == "step" else 0.0
    optimiser = torch.optim.SGD(loss.parameters(), 0.1, momentum, fused=form == "step")

    def run() -> None:
        optimiser.zero_grad()
        if form == "two":
            each = [functional.cross_entropy(x @ loss.weight.T, labels) for x in (images, captions)]
        else:
            each = list(loss(images, captions, labels))
        sum(each).backward()
        if form in ("step", "sampled"):
            optimiser.step()

    return run


def _grown(form: str) -> int:
    work(form, 50, 8)()  # a warm-up
    run = work(form, CLASSES)
    return grown(lambda: (run(), run()))  # the second meets what the first left behind
