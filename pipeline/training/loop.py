"""One training loop for all models: what differs between them comes in as phases, a schedule of the
learning rate and a judge of what validation finds.

A phase is a stretch of epochs with one objective. After every epoch the model is validated; the
weights that the judge prefers are kept. Killed at any moment, a training continues from its last
written state and ends with the same bytes.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.process import Progress, say
from pipeline.training.phases import (
    WHOLE,
    Batches,
    EpochVerdict,
    Fitted,
    Judge,
    LearningRates,
    Objective,
    Parts,
    Phase,
    Row,
    Watched,
    Weights,
)
from pipeline.training.processes import averaging, number, on_first, with_common_norms
from pipeline.training.resume import ResumeFile, random_states, restore_random_states
from pipeline.training.retrieval import judge_retrieval

CHECK_EVERY = 20  # steps between two looks at the loss: on a GPU each one waits for the device
WINDOW = 3  # epochs whose mean losses are compared to see whether a phase has converged
COLLAPSED_EPOCHS = 5  # in a row: some runs find the way out within a few
COLLAPSED = "lower the learning rate or train with another loss"
NOT_FINITE = "lower lr, set clip to 2 or so, and look for NaN with: vse inspect FILE.h5"


def fit(
    model: nn.Module,
    optimiser: torch.optim.Optimizer,
    phases: Sequence[Phase],
    batches: Batches,
    score_validation: Callable[[], Any],
    schedule: LearningRates,
    resume: ResumeFile,
    *,
    judge: Judge = judge_retrieval,
    advice: str = COLLAPSED,
    not_finite: str = NOT_FINITE,
    parts: Parts = WHOLE,
) -> Fitted:
    """Train a model through its phases.

    Everything is deterministic given the random generators' states, the batches and the machine.
    The model is left with the weights of the last epoch. Several processes train it together
    (pipeline.training.processes); the first alone validates it and keeps the state.

    Args:
        model: on its device, initialised from a seed.
        optimiser: over its parameters, with the first epoch's learning rates.
        phases: at least one of them selects.
        batches: of the phases that have none of their own.
        score_validation: what `judge` takes, from the model as it is: by default, scores.
        schedule: of the learning rate.
        resume: where the state is kept (and looked for).
        judge: of every epoch's validation.
        advice: what to try when training has collapsed.
        not_finite: what to try when the loss is not finite.
        parts: of the model that are trained as if alone.

    Raises:
        WorkbenchError: the loss is not finite or the model has collapsed.
    """
    model = with_common_norms(model)
    loop = _Loop(model, optimiser, phases, batches, schedule, resume, not_finite, parts)
    loop.restore()
    total, done = loop.total_steps(phases), loop.steps_done()
    with Progress("training", total, "steps", done) as progress:
        while loop.phase < len(phases):
            loop.raise_if_stuck(COLLAPSED_EPOCHS, advice)
            loop.train_epoch(progress)
            loop.close_epoch(loop.judged(judge, score_validation), progress)
    loop.raise_if_stuck(min(loop.epoch, COLLAPSED_EPOCHS), advice)
    return Fitted(loop.best_weights, max(loop.best.values()), loop.history)


class _Loop:
    """Everything that changes during a training, and how it is saved and restored.

    epoch, step: how many of them are complete; phase: number of the running phase; phase_epoch:
    how many of its epochs are complete; names, totals: of the loss's terms (one without a name for
    a plain loss), and their sums in the running epoch; figures: sums of what is watched beside the
    loss; best: of each part the epoch (from 1) that the judge prefers of those that may be kept, 0
    before the first; score: their scores; stuck: number of collapsed epochs in a row; collapsed: in
    which way.
    """

    def __init__(
        self,
        model: nn.Module,
        optimiser: torch.optim.Optimizer,
        phases: Sequence[Phase],
        batches: Batches,
        schedule: LearningRates,
        resume: ResumeFile,
        not_finite: str,
        parts: Parts,
    ) -> None:
        self.model, self.optimiser, self.phases = model, optimiser, phases
        self.batches, self.schedule, self.resume = batches, schedule, resume
        self.not_finite, self.parts = not_finite, parts
        self.device = next(model.parameters()).device
        self.module: nn.Module = _Step(model)
        self.epoch = self.step = self.stuck = self.phase = self.phase_epoch = 0
        self.best = dict.fromkeys(parts, 0)
        self.score: dict[str, float | None] = dict.fromkeys(parts)
        self.collapsed = ""
        self.names: list[str] = []
        self.totals = torch.zeros(0, dtype=torch.float64, device=self.device)
        self.figures: dict[str, torch.Tensor] = {}
        self.history: list[Row] = []
        self.best_weights: Weights = {}

    @property
    def current(self) -> Phase:
        return self.phases[self.phase]

    def steps(self, phase: Phase) -> int:
        """Steps per epoch of a phase."""
        return (phase.batches or self.batches).steps

    def total_steps(self, phases: Sequence[Phase]) -> int:
        """Steps of all epochs of some phases."""
        return sum(phase.epochs * self.steps(phase) for phase in phases)

    def steps_done(self) -> int:
        """Steps taken or left out until here."""
        past = self.total_steps(self.phases[: self.phase])
        return past + (self.steps_of_phase() if self.phase < len(self.phases) else 0)

    def steps_of_phase(self) -> int:
        """Steps taken in the running phase."""
        return self.phase_epoch * self.steps(self.current) + self.step

    def train_epoch(self, progress: Progress) -> None:
        """Take the steps of this epoch that are still to be taken."""
        phase = self.current
        self.model.train()
        if phase.prepare:
            phase.prepare(self.model)
        self.module = averaging(_Step(self.model))  # of the weights that are now trained
        for batch in (phase.batches or self.batches).epoch(self.epoch, self.step):
            self.set_learning_rate()
            self.train_step(phase, batch.to(self.device))
            self.step += 1
            look = self.step % CHECK_EVERY == 0 or self.step == self.steps(phase)
            progress.update(note=self.checked_note() if look else "")
            if self.resume.due():
                self.checked_note()
                self.save()

    def train_step(self, phase: Phase, batch: Any) -> None:
        """One step of the optimiser; the loss before it is added to the epoch's."""
        self.optimiser.zero_grad()
        reduced = self.schedule.precision == "bf16"
        with torch.autocast(self.device.type, torch.bfloat16, enabled=reduced):
            names, values, figures = self.module(phase.objective, batch)
        values.sum().backward()
        if self.schedule.clip > 0:
            named = list(self.model.named_parameters())
            for prefixes in self.parts.values():
                own = [values for name, values in named if name.startswith(prefixes)]
                nn.utils.clip_grad_norm_(own, self.schedule.clip)
        self.optimiser.step()
        self.add(names, values.detach().double(), figures)

    def add(
        self, names: list[str], values: torch.Tensor, figures: Mapping[str, torch.Tensor]
    ) -> None:
        """Add one step's loss terms, (len(names),), and the scalars watched beside it."""
        self.names = names
        self.totals = self.totals + values if self.step else values
        now = {name: figure.detach().double() for name, figure in figures.items()}
        before = self.figures if self.step else {}
        self.figures = {name: before.get(name, 0) + figure for name, figure in now.items()}

    def set_learning_rate(self) -> None:
        """That of the next step."""
        own = self.current.lr
        if own is None:
            place = self.epoch, self.steps_done(), self.total_steps(self.phases)
        else:
            place = self.phase_epoch, self.steps_of_phase(), self.total_steps([self.current])
        share = self.schedule.share(*place)
        for group in self.optimiser.param_groups:
            first = group.setdefault("initial_lr", group["lr"])
            group["lr"] = (first if own is None else own) * share

    def checked_note(self) -> str:
        """The running mean loss as a note for the bar; WorkbenchError when it is not finite."""
        if not torch.isfinite(self.totals).all():
            finite = torch.isfinite(self.totals).tolist()
            bad = [name for name, good in zip(self.names, finite, strict=True) if name and not good]
            raise WorkbenchError(
                f"the loss is not finite in epoch {self.epoch + 1}, by step {self.step}"
                + (f": {', '.join(bad)}" if bad else ""),
                self.not_finite,
            )
        return f"epoch {self.epoch + 1}, loss {self.totals.sum().item() / self.step:.4g}"

    def judged(self, judge: Judge, score_validation: Callable[[], Any]) -> EpochVerdict:
        """What the first process makes of its validation of the epoch that ends."""
        score = self.current.score or score_validation
        return on_first(lambda: judge(score(), self.history))

    def close_epoch(self, judged: EpochVerdict, progress: Progress) -> None:
        """Record the epoch, keep its weights when they are the best, and write the state."""
        row = self.row() | judged.columns | {"lr": self.optimiser.param_groups[0]["lr"]}
        self.collapsed = judged.collapsed if self.current.ranks else ""
        self.stuck = self.stuck + 1 if self.collapsed else 0
        self.history.append(row)
        self.epoch, self.phase_epoch, self.step = self.epoch + 1, self.phase_epoch + 1, 0
        if self.current.selects:
            for part in self.parts:
                self.keep_if_best(part, judged.of_part(part))
        self.close_phase(progress)
        self.save()
        best = "".join(map(self.best_note, self.parts))
        say(f"epoch {self.epoch} ({row['phase']}): loss {row['loss']:.4g}, {judged.note}{best}")

    def row(self) -> Row:
        """What the curve says of the running epoch before its validation: means of the loss, of its
        terms where it has several, and of what is watched beside it."""
        steps = self.steps(self.current)
        means = (self.totals / steps).tolist()
        row = {"epoch": self.epoch + 1, "phase": self.current.name, "loss": sum(means)}
        terms = zip(self.names, means, strict=True)
        row |= {f"loss_{name}": mean for name, mean in terms if name}
        return row | {name: figure.item() / steps for name, figure in self.figures.items()}

    def keep_if_best(self, part: str, score: float | None) -> None:
        """Keep a part's weights if they are better than those that were kept until here."""
        before = self.score[part]
        if score is None or before is None or score > before:
            self.best[part], self.score[part] = self.epoch, score
            weights = self.model.state_dict().items()
            own = {name: value for name, value in weights if name.startswith(self.parts[part])}
            self.best_weights |= copied(own)

    def best_note(self, part: str) -> str:
        """The best score of a part until here for the person watching."""
        score, named = self.score[part], f" {part}" if part else ""
        return "" if score is None else f", best{named} {score:.1f} in epoch {self.best[part]}"

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

    def raise_if_stuck(self, epochs: int, advice: str) -> None:
        """WorkbenchError when the last `epochs` epochs were all collapsed."""
        if self.stuck >= epochs:
            raise WorkbenchError(
                f"training has collapsed: for {self.stuck} epochs {self.collapsed} "
                f"and the loss stands at {self.history[-1]['loss']:.4g}",
                advice,
            )

    def save(self) -> None:
        """Write the state, which is the same in all processes."""
        if number():
            return
        self.resume.save(
            {
                "model": self.model.state_dict(),
                "optimiser": self.optimiser.state_dict(),
                "random": random_states(),
                "epoch": self.epoch,
                "phase": self.phase,
                "phase_epoch": self.phase_epoch,
                "step": self.step,
                "names": self.names,
                "totals": self.totals,
                "figures": self.figures,
                "history": self.history,
                "best": self.best,
                "score": self.score,
                "stuck": self.stuck,
                "collapsed": self.collapsed,
                "best_weights": self.best_weights,
            }
        )

    def restore(self) -> None:
        """Continue from the saved state, if there is one."""
        state = on_first(self.resume.load)
        if state is None:
            return
        self.model.load_state_dict(state["model"])
        self.optimiser.load_state_dict(state["optimiser"])
        restore_random_states(state["random"])
        self.epoch, self.step = state["epoch"], state["step"]
        self.phase, self.phase_epoch = state["phase"], state["phase_epoch"]
        self.best, self.score = state["best"], state["score"]
        self.stuck, self.collapsed = state["stuck"], state["collapsed"]
        self.names, self.totals = state["names"], state["totals"].to(self.device)
        self.figures = {name: one.to(self.device) for name, one in state["figures"].items()}
        self.history, self.best_weights = state["history"], state["best_weights"]
        say(f"continuing after {self.epoch} epochs and {self.step} steps")


class _Step(nn.Module):
    """A model with whichever objective it is trained by, as what processes average is a module."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, objective: Objective, batch: Any
    ) -> tuple[list[str], torch.Tensor, dict[str, torch.Tensor]]:
        """Names of the loss's terms, the terms, and what is watched beside them."""
        found = objective(self.model, batch)
        seen = found if isinstance(found, Watched) else Watched(found, {})
        terms = seen.loss if isinstance(seen.loss, Mapping) else {"": seen.loss}
        return list(terms), torch.stack(list(terms.values())), dict(seen.figures)


def copied(weights: Mapping[str, torch.Tensor]) -> Weights:
    """A copy of a state dict on the CPU."""
    return {name: value.detach().cpu().clone() for name, value in weights.items()}
