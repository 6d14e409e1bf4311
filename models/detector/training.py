"""The training of the detector: pipeline.training.loop serves models that are judged by retrieval.

A detector has several named loss terms, is judged by recall and average precision, and learns in
so few epochs that the learning rate must change with every step: a warmup, then a line to zero.
Killed at any moment, it continues from its last written state and ends with the same bytes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from models.detector.data import DetectionBatch, DetectionBatches, LabelledImages
from models.detector.metrics import detection_metrics
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.process import Progress, say
from pipeline.training.curve import Row
from pipeline.training.resume import ResumeFile, random_states, restore_random_states

CHECK_EVERY = 20  # steps between two looks at the loss: on a GPU each one waits for the device
LAST_SHARE = 0.02  # of the learning rate, in the last step


@dataclass(frozen=True)
class Recipe:
    """How the detector is trained.

    epochs: passes over the training batches; lr: the largest learning rate of AdamW; warmup: steps
    until it is reached; weight_decay: of AdamW; clip: largest gradient norm, 0 for none;
    attribute_weight: of the attribute term, all others have 1; threshold: least score of an object
    that counts as found.
    """

    epochs: int
    lr: float
    warmup: int
    weight_decay: float
    clip: float
    attribute_weight: float
    threshold: float


def fit_detector(
    model: Any,
    batches: DetectionBatches,
    validation: LabelledImages,
    recipe: Recipe,
    resume: ResumeFile,
) -> list[Row]:
    """Train a detector; returns one row per epoch: mean loss terms, validation, learning rate.

    model: on its device, initialised from a seed; validation: judged after every epoch (rows have
    shares from 0 to 1). The model is left in evaluation mode with the weights of the last epoch:
    with a learning rate that falls to zero it is the best one.
    Raises WorkbenchError when the loss is not finite.
    """
    loop = _Loop(model, batches, recipe, resume)
    loop.restore()
    total, done = recipe.epochs * batches.steps, loop.epoch * batches.steps + loop.step
    with Progress("detector", total, "steps", done) as progress:
        while loop.epoch < recipe.epochs:
            loop.train_epoch(progress)
            loop.close_epoch(validate(model, validation, batches.size, recipe.threshold))
    model.eval()
    return loop.history


def validate(model: Any, data: LabelledImages, size: int, threshold: float) -> dict[str, float]:
    """Recall, average precision and attributes (models.detector.metrics) on labelled images.

    size: images per batch. No images: no figures, an empty dict.
    """
    if not len(data):
        return {}
    model.eval()
    device = next(model.parameters()).device
    outputs: list[Any] = []
    for start in range(0, len(data), size):
        batch = data.batch(range(start, min(start + size, len(data)))).to(device)
        outputs += [type(one)(*(part.cpu() for part in one)) for one in model.regions(batch.images)]
    return detection_metrics(outputs, data.truths, threshold)


class _Loop:
    """Everything that changes during a training, and how it is saved and restored.

    epoch, step: how many of them are complete; totals: sums of the running epoch's loss terms.
    """

    def __init__(
        self, model: Any, batches: DetectionBatches, recipe: Recipe, resume: ResumeFile
    ) -> None:
        self.model, self.batches, self.recipe, self.resume = model, batches, recipe, resume
        self.device = next(model.parameters()).device
        self.optimiser = torch.optim.AdamW(
            model.parameters(), recipe.lr, weight_decay=recipe.weight_decay
        )
        self.epoch = self.step = 0
        self.names: list[str] = []
        self.totals = torch.zeros(0, dtype=torch.float64, device=self.device)
        self.history: list[Row] = []

    def train_epoch(self, progress: Progress) -> None:
        """Take the steps of this epoch that are still to be taken."""
        self.model.train()
        for batch in self.batches.epoch(self.epoch, self.step):
            self.train_step(batch.to(self.device))
            self.step += 1
            look = self.step % CHECK_EVERY == 0 or self.step == self.batches.steps
            progress.update(note=self.checked_note() if look else "")
            if self.resume.due():
                self.checked_note()
                self.save()

    def train_step(self, batch: DetectionBatch) -> None:
        """One step of the optimiser; the loss terms before it are added to `totals`."""
        for group in self.optimiser.param_groups:
            group["lr"] = self.recipe.lr * self.lr_share()
        targets = [vars(truth) for truth in batch.truths]
        terms = self.model.losses(batch.images, targets)
        weights = {"attributes": self.recipe.attribute_weight}
        self.optimiser.zero_grad()
        torch.stack(
            [weights.get(name, 1.0) * term for name, term in terms.items()]
        ).sum().backward()
        if self.recipe.clip > 0:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.recipe.clip)
        self.optimiser.step()
        self.add(list(terms), torch.stack([term.detach().double() for term in terms.values()]))

    def add(self, names: Sequence[str], values: Tensor) -> None:
        """Add the loss terms of one step to the epoch's."""
        self.names = list(names)
        self.totals = values if not len(self.totals) else self.totals + values

    def lr_share(self) -> float:
        """The share of the learning rate in this step: a line up, then a line down."""
        done = self.epoch * self.batches.steps + self.step
        left = 1 - done / (self.recipe.epochs * self.batches.steps)
        return min(1.0, (done + 1) / max(self.recipe.warmup, 1)) * max(LAST_SHARE, left)

    def checked_note(self) -> str:
        """The running mean loss as a note for the bar; WorkbenchError when it is not finite."""
        if not torch.isfinite(self.totals).all():
            terms = dict(zip(self.names, self.totals.tolist(), strict=True))
            bad = [name for name, value in terms.items() if not abs(value) < float("inf")]
            raise WorkbenchError(
                f"the detector's loss is not finite in epoch {self.epoch + 1}, by step "
                f"{self.step}: {', '.join(bad)}",
                "lower detector.training.lr or set detector.training.clip to 2 or so",
            )
        return f"epoch {self.epoch + 1}, loss {self.totals.sum().item() / self.step:.4g}"

    def close_epoch(self, judged: dict[str, float]) -> None:
        """Record the epoch and write the state."""
        means = (self.totals / self.batches.steps).tolist()
        row: Row = {"epoch": self.epoch + 1, "loss": sum(means)}
        row |= {f"loss_{name}": mean for name, mean in zip(self.names, means, strict=True)}
        row |= {f"val_{name}": value for name, value in judged.items()}
        row["lr"] = self.optimiser.param_groups[0]["lr"]
        self.history.append(row)
        self.epoch, self.step = self.epoch + 1, 0
        self.totals = self.totals[:0]
        self.save()
        shown = ", ".join(f"{name} {value:.3f}" for name, value in judged.items())
        say(f"detector, epoch {self.epoch}: loss {row['loss']:.4g}, {shown or 'not validated'}")

    def save(self) -> None:
        self.resume.save(
            {
                "model": self.model.state_dict(),
                "optimiser": self.optimiser.state_dict(),
                "random": random_states(),
                "epoch": self.epoch,
                "step": self.step,
                "names": self.names,
                "totals": self.totals,
                "history": self.history,
            }
        )

    def restore(self) -> None:
        """Continue from the saved state, if there is one."""
        state = self.resume.load()
        if state is None:
            return
        self.model.load_state_dict(state["model"])
        self.optimiser.load_state_dict(state["optimiser"])
        restore_random_states(state["random"])
        self.epoch, self.step = state["epoch"], state["step"]
        self.names, self.totals = state["names"], state["totals"].to(self.device)
        self.history = state["history"]
        say(f"detector: continuing after {self.epoch} epochs and {self.step} steps")
