"""The instance loss at MS-COCO's size: peak memory and time, both branches, full and sampled.

Memory is the growth of a fresh process's peak over forward and backward, after a small run; the
classifier itself, of 928 MB, is there before. `two products` is the obvious form: the same
classifier applied to each branch by itself.
"""

from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch.nn import functional

from benchmarks.common import Row, apart, extra_bytes, paired_ratio, size
from models.dual_path.instance import InstanceLoss

CLASSES, DIM, BATCH, SAMPLED = size((113_287, 2_048, 32, 4_096), (100, 8, 4, 10))
TIMED = size(20_000, 50)  # classes: the ratio is the same, and a run short
CLASSIFIER = 4 * CLASSES * DIM
FORMS = {"one": "one product", "two": "two products", "sampled": f"{SAMPLED:,} sampled"}


def rows() -> Iterator[Row]:
    forms = *FORMS, "step"
    extra = {name: apart(extra_bytes, twice, partial(work, name), 50, CLASSES) for name in forms}
    title = f"classifier of {CLASSES:,} x {DIM:,} ({CLASSIFIER / 1e6:.0f} MB), both branches at "
    title += f"batch {BATCH}"
    share = extra["one"] / CLASSIFIER
    whole = extra["step"] + CLASSIFIER
    yield Row(
        f"{title}: memory of forward and backward",
        f"{extra['one'] / 1e6:.0f} MB, {share:.2f} of the classifier; two products "
        f"{extra['two'] / 1e6:.0f} MB",
        "<= 1.2 of the classifier",
        share,
    )
    yield Row(
        f"{title}: peak with a step of SGD, momentum 0.9, fused",
        f"{whole / 1e9:.2f} GB, the classifier included",
        f"<= 3.2 classifiers ({3.2 * CLASSIFIER / 1e9:.2f} GB)",
        whole / CLASSIFIER,
    )
    share = extra["sampled"] / CLASSIFIER
    yield Row(
        f"{title}: memory with {SAMPLED:,} classes sampled, a step of SGD included",
        f"{extra['sampled'] / 1e6:.0f} MB, {share:.2f} of the classifier",
        "<= 1.2 of the classifier",
        share,
    )
    for ours, reference in (("one", "two"), ("sampled", "one")):
        run = work(ours, TIMED)
        pair = paired_ratio(run, work(reference, TIMED), runs=3)
        title = f"forward and backward of {TIMED:,} classes x {DIM:,}, batch {BATCH}: {FORMS[ours]}"
        yield Row(title, pair.of(FORMS[reference]), "<= 1x", pair.ratio, run)


def work(form: str, classes: int) -> Callable[[], None]:
    """One step of a form on random features; the classifier is made here.

    Args:
        form: A key of FORMS, or step: one product with an optimiser that keeps a momentum.
        classes: Rows of the classifier.

    Returns:
        A function that takes the step.
    """
    torch.manual_seed(0)
    loss = InstanceLoss(classes, DIM, sampled=SAMPLED if form == "sampled" else 0)
    images = torch.randn(BATCH, DIM, requires_grad=True)
    captions = torch.randn(BATCH, DIM, requires_grad=True)
    labels = torch.randint(classes, (BATCH,))
    momentum = 0.9 if form == "step" else 0.0
    optimiser = torch.optim.SGD(loss.parameters(), 0.1, momentum, fused=form == "step")

    def run() -> None:
        optimiser.zero_grad()
        if form == "two":
            both = [functional.cross_entropy(x @ loss.weight.T, labels) for x in (images, captions)]
        else:
            both = list(loss(images, captions, labels))
        (both[0] + both[1]).backward()
        if form in ("step", "sampled"):
            optimiser.step()

    return run


def twice(run: Callable[[], None]) -> None:
    """Two steps: the second meets what the first left."""
    run()
    run()
