"""One training loop for all models: what differs between them comes in as phases.

A phase is a stretch of epochs with one objective. After every epoch the validation split is
scored; the weights with the largest rsum are kept. Killed at any moment, a training continues
from its last written state and ends with the same bytes.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.process import Progress, say
from pipeline.scores.file import SplitScores
from pipeline.training.curve import Row, is_collapsed, validation_columns
from pipeline.training.phases import Batches, Fitted, Phase, Schedule, Weights
from pipeline.training.resume import ResumeFile, random_states, restore_random_states

CHECK_EVERY = 20  # steps between two looks at the loss: on a GPU each one waits for the device
WINDOW = 3  # epochs whose mean losses are compared to see whether a phase has converged
COLLAPSED_EPOCHS = 5  # in a row: some runs find the way out within a few


def fit(
    model: nn.Module,
    optimiser: torch.optim.Optimizer,
    phases: Sequence[Phase],
    batches: Batches,
    score_validation: Callable[[], SplitScores],
    schedule: Schedule,
    resume: ResumeFile,
    *,
    advice: str = "lower the learning rate, or train with another loss",
) -> Fitted:
    """Train a model through its phases.

    model: on its device, initialised from a seed; optimiser: over its parameters, with the first
    epoch's learning rates; score_validation: scores the validation split with the model as it is;
    resume: where the state is kept (and looked for); advice: what may help after a collapse.
    Everything is deterministic given the random
    generators' states, the batches and the machine.
    Raises WorkbenchError when the loss is not finite or the model has collapsed.
    """
    loop = _Loop(model, optimiser, phases, batches, schedule, resume, advice)
    loop.restore()
    steps = [phase.epochs * (phase.batches or batches).steps for phase in phases]
    with Progress("training", sum(steps), "steps", loop.steps_done()) as progress:
        while loop.phase < len(phases):
            loop.raise_if_stuck(COLLAPSED_EPOCHS)
            loop.train_epoch(progress)
            loop.close_epoch((loop.current.score or score_validation)(), progress)
    loop.raise_if_stuck(min(loop.epoch, COLLAPSED_EPOCHS))
    best = loop.history[loop.best - 1]
    return Fitted(loop.best_weights, best["epoch"], best["val_rsum"], loop.history)


class _Loop:
    """Everything that changes during a training, and how it is saved and restored.

    epoch, step: how many of them are complete; phase: number of the running phase; phase_epoch:
    how many of its epochs are complete; total: sum of the running epoch's losses; best: epoch
    (from 1) with the largest rsum of those that may be kept, 0 before the first; stuck: number
    of collapsed epochs in a row.
    """

    def __init__(
        self,
        model: nn.Module,
        optimiser: torch.optim.Optimizer,
        phases: Sequence[Phase],
        batches: Batches,
        schedule: Schedule,
        resume: ResumeFile,
        advice: str,
    ) -> None:
        self.model, self.optimiser, self.phases = model, optimiser, phases
        self.batches, self.schedule, self.resume = batches, schedule, resume
        self.advice = advice
        self.device = next(model.parameters()).device
        self.epoch = self.step = self.best = self.stuck = self.phase = self.phase_epoch = 0
        self.total = torch.zeros((), dtype=torch.float64, device=self.device)
        self.history: list[Row] = []
        self.best_weights: Weights = {}

    @property
    def current(self) -> Phase:
        return self.phases[self.phase]

    def steps(self, phase: Phase) -> int:
        """Steps per epoch of a phase."""
        return (phase.batches or self.batches).steps

    def steps_done(self) -> int:
        """Steps taken or left out until here."""
        past = sum(phase.epochs * self.steps(phase) for phase in self.phases[: self.phase])
        if self.phase == len(self.phases):
            return past
        return past + self.phase_epoch * self.steps(self.current) + self.step

    def train_epoch(self, progress: Progress) -> None:
        """Take the steps of this epoch that are still to be taken."""
        phase = self.current
        self.model.train()
        if phase.prepare:
            phase.prepare(self.model)
        self.set_learning_rate()
        for batch in (phase.batches or self.batches).epoch(self.epoch, self.step):
            self.total += self.train_step(phase, batch.to(self.device))
            self.step += 1
            look = self.step % CHECK_EVERY == 0 or self.step == self.steps(phase)
            progress.update(note=self.checked_note() if look else "")
            if self.resume.due():
                self.checked_note()
                self.save()

    def train_step(self, phase: Phase, batch: Any) -> torch.Tensor:
        """One step of the optimiser; the loss before it, detached."""
        self.optimiser.zero_grad()
        reduced = self.schedule.precision == "bf16"
        with torch.autocast(self.device.type, torch.bfloat16, enabled=reduced):
            loss = phase.objective(self.model, batch)
        loss.backward()
        if self.schedule.clip > 0:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.schedule.clip)
        self.optimiser.step()
        return loss.detach()

    def set_learning_rate(self) -> None:
        own = self.current.lr
        epochs = self.epoch if own is None else self.phase_epoch
        factor = self.schedule.lr_factor ** (epochs // self.schedule.lr_step)
        for group in self.optimiser.param_groups:
            first = group.setdefault("initial_lr", group["lr"])
            group["lr"] = (first if own is None else own) * factor

    def checked_note(self) -> str:
        """The running mean loss as a note for the bar; WorkbenchError when it is not finite."""
        mean = self.total.item() / self.step
        if not torch.isfinite(self.total):
            raise WorkbenchError(
                f"the loss is not finite in epoch {self.epoch + 1}, by step {self.step}",
                "lower lr, set clip to 2 or so, and look for NaN with: "
                "python -m stages.inspect_features FILE.h5",
            )
        return f"epoch {self.epoch + 1}, loss {mean:.4g}"

    def close_epoch(self, scores: SplitScores, progress: Progress) -> None:
        """Record the epoch, keep its weights when they are the best, and write the state."""
        row = {
            "epoch": self.epoch + 1,
            "phase": self.current.name,
            "loss": self.total.item() / self.steps(self.current),
            **validation_columns(scores),
            "lr": self.optimiser.param_groups[0]["lr"],
        }
        improved = all(row["val_rsum"] > other["val_rsum"] for other in self.history)
        collapsed = self.current.ranks and is_collapsed(scores, row, improved)
        self.stuck = self.stuck + 1 if collapsed else 0
        kept = self.history[self.best - 1]["val_rsum"] if self.best else -1.0
        self.history.append(row)
        self.epoch, self.phase_epoch, self.step = self.epoch + 1, self.phase_epoch + 1, 0
        self.total.zero_()
        if self.current.selects and row["val_rsum"] > kept:
            self.best, self.best_weights = self.epoch, copied(self.model.state_dict())
            kept = row["val_rsum"]
        self.close_phase(progress)
        self.save()
        say(
            f"epoch {self.epoch} ({row['phase']}): loss {row['loss']:.4g}, validation rsum "
            f"{row['val_rsum']:.1f}"
            + (f", best {kept:.1f} in epoch {self.best}" if self.best else "")
        )

    def close_phase(self, progress: Progress) -> None:
        """Go on to the next phase when this one is over."""
        left = self.current.epochs - self.phase_epoch
        if left and self.has_converged():
            say(f"phase {self.current.name} has converged after {self.phase_epoch} epochs")
            progress.update(left * self.steps(self.current))
            left = 0
        if not left:
            self.phase, self.phase_epoch = self.phase + 1, 0

    def has_converged(self) -> bool:
        """Whether the last epochs of the phase lowered the mean loss by too small a share.

        WINDOW epochs are compared with as many before them: the first ones of a softmax over many
        classes stand still, too, and single epochs are noisy.
        """
        if self.phase_epoch < 2 * WINDOW or not self.current.stop_below:
            return False
        losses = [row["loss"] for row in self.history[-2 * WINDOW :]]
        before, after = sum(losses[:WINDOW]), sum(losses[WINDOW:])
        return bool(before - after < self.current.stop_below * abs(before))

    def raise_if_stuck(self, epochs: int) -> None:
        """WorkbenchError when the last `epochs` epochs were all collapsed."""
        if self.stuck >= epochs:
            row = self.history[-1]
            raise WorkbenchError(
                f"training has collapsed: for {self.stuck} epochs the validation scores are nearly "
                f"equal (standard deviation {row['val_spread']:.2g}), rsum is {row['val_rsum']:.1f}"
                f" and the loss stands at {row['loss']:.4g}",
                self.advice,
            )

    def save(self) -> None:
        self.resume.save(
            {
                "model": self.model.state_dict(),
                "optimiser": self.optimiser.state_dict(),
                "random": random_states(),
                "epoch": self.epoch,
                "phase": self.phase,
                "phase_epoch": self.phase_epoch,
                "step": self.step,
                "total": self.total,
                "history": self.history,
                "best": self.best,
                "stuck": self.stuck,
                "best_weights": self.best_weights,
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
        self.phase, self.phase_epoch = state["phase"], state["phase_epoch"]
        self.best, self.stuck = state["best"], state["stuck"]
        self.total = state["total"].to(self.device)
        self.history, self.best_weights = state["history"], state["best_weights"]
        say(f"continuing after {self.epoch} epochs and {self.step} steps")


def copied(weights: Mapping[str, torch.Tensor]) -> Weights:
    """A copy of a state dict on the CPU."""
    return {name: value.detach().cpu().clone() for name, value in weights.items()}
