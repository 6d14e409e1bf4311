"""One training loop for all models, which differ in phases, learning rates and judges.

A phase is a stretch of epochs with one objective. After every epoch the model is validated; the
weights that the judge prefers are kept. Killed at any moment, a training continues from its last
written state and ends with the same bytes.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.process import Progress, say
from pipeline.training.curve import judge_retrieval
from pipeline.training.phases import (
    WHOLE,
    Batches,
    EpochVerdict,
    Fitted,
    Judge,
    Objective,
    Parts,
    Phase,
    Row,
    Schedule,
    WarmupSchedule,
    Watched,
    Weights,
)
from pipeline.training.processes import averaging, number, on_first, with_common_norms
from pipeline.training.resume import ResumeFile, random_states, restore_random_states

CHECK_EVERY = 20  # steps between two looks at the loss: on a GPU each one waits for the device
WINDOW = 3  # epochs whose mean losses are compared to see whether a phase has converged
COLLAPSED_EPOCHS = 5  # in a row: some runs find the way out within a few
COLLAPSED = "lower the learning rate or train with another loss"
STATE = ["epoch", "phase", "phase_epoch", "step", "terms", "figures", "history", "best"]
STATE += ["score", "stuck", "collapsed", "best_weights", "peaks", "waited", "skipped"]
NOT_FINITE = "lower lr, set clip to 2 or so, and look for NaN with: vse inspect FILE.h5"


Sums = dict[str, torch.Tensor]


def fit(
    model: nn.Module,
    optimiser: torch.optim.Optimizer,
    phases: Sequence[Phase],
    batches: Batches,
    score_validation: Callable[[], Any],
    schedule: Schedule | WarmupSchedule,
    resume: ResumeFile,
    *,
    judge: Judge = judge_retrieval,
    advice: str = COLLAPSED,
    not_finite: str = NOT_FINITE,
    parts: Parts = WHOLE,
) -> Fitted:
    """Train a model through its phases.

    The model is left with the weights of the last epoch. Of several processes the first alone
    validates it and keeps the state. score_validation: what `judge` takes; advice: what to try
    after a collapse; not_finite: what to try when the loss is not finite.
    """
    model = with_common_norms(model)
    loop = _Loop(model, optimiser, phases, batches, schedule, resume, not_finite, parts)
    loop.restore()
    total, done = loop.total_steps(phases), loop.steps_done()
    with Progress("training", total, "steps", done) as progress:
        while loop.phase < len(phases):
            loop.raise_if_stuck(COLLAPSED_EPOCHS, advice)
            loop.train_epoch(progress)
            score = loop.current.score or score_validation
            judged = on_first(lambda score=score: judge(score(), loop.history))  # type: ignore[misc]
            loop.close_epoch(judged, progress)
    loop.raise_if_stuck(min(loop.epoch, COLLAPSED_EPOCHS), advice)
    return Fitted(loop.best_weights, max(loop.best.values()), loop.history)


@dataclass
class _Loop:
    """Everything that changes during a training, and how it is saved and restored."""

    model: nn.Module
    optimiser: torch.optim.Optimizer
    phases: Sequence[Phase]
    batches: Batches
    schedule: Schedule | WarmupSchedule
    resume: ResumeFile
    not_finite: str
    parts: Parts
    epoch: int = 0  # complete epochs
    step: int = 0  # complete steps of the running epoch
    phase: int = 0  # number of the running phase
    phase_epoch: int = 0  # its complete epochs
    stuck: int = 0  # collapsed epochs in a row
    collapsed: str = ""  # in which way
    peaks: dict[str, float | None] = field(default_factory=dict)  # of the running phase, by part
    waited: int = 0  # epochs since one of them was reached or the learning rate fell
    skipped: int = 0  # epochs left out because a learning rate gained nothing any more
    # sums over the epoch: of the loss's terms, "" of a plain loss, and of what is watched
    terms: Sums = field(default_factory=dict)
    figures: Sums = field(default_factory=dict)
    history: list[Row] = field(default_factory=list)
    best_weights: Weights = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rows = 0  # of the batches whose gradients are added up
        self.device = next(self.model.parameters()).device
        self.module: nn.Module = _Step(self.model)
        # of each part the epoch that is kept, from 1, and its score
        self.best = dict.fromkeys(self.parts, 0)
        self.score: dict[str, float | None] = dict.fromkeys(self.parts)

    @property
    def current(self) -> Phase:
        return self.phases[self.phase]

    def steps(self, phase: Phase) -> int:
        return (phase.batches or self.batches).steps

    def total_steps(self, phases: Sequence[Phase]) -> int:
        return sum(phase.epochs * self.steps(phase) for phase in phases)

    def steps_done(self) -> int:
        past = self.total_steps(self.phases[: self.phase])
        return past + (self.steps_of_phase() if self.phase < len(self.phases) else 0)

    def steps_of_phase(self) -> int:
        return self.phase_epoch * self.steps(self.current) + self.step

    def train_epoch(self, progress: Progress) -> None:
        phase = self.current
        self.model.train()
        if phase.prepare:
            phase.prepare(self.model)
        self.module = averaging(_Step(self.model))  # of the weights that are now trained
        for batch in (phase.batches or self.batches).epoch(self.epoch, self.step):
            moved = self.train_step(phase, batch.to(self.device))
            self.step += 1
            look = self.step % CHECK_EVERY == 0 or self.step == self.steps(phase)
            progress.update(note=self.checked_note() if look else "")
            if moved and self.resume.due():  # there are no gradients to save
                self.checked_note()
                self.save()

    def train_step(self, phase: Phase, batch: Any) -> bool:
        """Add the gradient of a batch and, if enough are added, take a step of the optimiser;
        whether it did. The loss before it is added to the epoch's."""
        several, position = self.schedule.accumulate, self.step % self.schedule.accumulate
        if position == 0:
            self.set_learning_rate()
            self.optimiser.zero_grad()
            self.rows = 0
        reduced = self.schedule.precision == "bf16"
        with torch.autocast(self.device.type, torch.bfloat16, enabled=reduced):
            terms, figures = self.module(phase.objective, batch)
        self.terms = added(self.terms if self.step else {}, terms)
        self.figures = added(self.figures if self.step else {}, figures)
        loss = torch.stack(list(terms.values())).sum()
        if several == 1:
            loss.backward()
        else:  # the last batch of an epoch may have fewer rows
            (loss * len(batch)).backward()
            self.rows += len(batch)
            if position + 1 < several and self.step + 1 < self.steps(phase):
                return False
            for weight in self.model.parameters():
                if weight.grad is not None:
                    weight.grad /= self.rows
        if self.schedule.clip > 0:
            named = list(self.model.named_parameters())
            for prefixes in self.parts.values():
                weights = [values for name, values in named if name.startswith(prefixes)]
                nn.utils.clip_grad_norm_(weights, self.schedule.clip)
        self.optimiser.step()
        return True

    def set_learning_rate(self) -> None:
        """That of the next step: of the phase where it has its own, else of all other phases."""
        rate, steps = self.current.lr, self.steps(self.current)
        if rate is None:
            shared = [phase for phase in self.phases if phase.lr is None]
            past = [phase for phase in self.phases[: self.phase] if phase.lr is None]
            epochs = self.epoch + self.skipped
        else:
            shared, past, epochs = [self.current], [], self.phase_epoch
        done = self.total_steps(past) + self.steps_of_phase()
        share = self.schedule.share(epochs, done, self.total_steps(shared), steps)
        for group in self.optimiser.param_groups:
            first = group.setdefault("initial_lr", group["lr"])
            group["lr"] = (first if rate is None else rate) * share

    def checked_note(self) -> str:
        """The running mean loss as a note for the bar; WorkbenchError when it is not finite."""
        totals = torch.stack(list(self.terms.values()))
        if not torch.isfinite(totals).all():
            bad = [name for name, total in self.terms.items() if name and not total.isfinite()]
            raise WorkbenchError(
                f"the loss is not finite in epoch {self.epoch + 1}, by step {self.step}"
                + (f": {', '.join(bad)}" if bad else ""),
                self.not_finite,
            )
        return f"epoch {self.epoch + 1}, loss {totals.sum().item() / self.step:.4g}"

    def close_epoch(self, judged: EpochVerdict, progress: Progress) -> None:
        """Record the epoch, keep its weights when they are the best, and write the state."""
        row = self.row() | judged.columns | {"lr": self.optimiser.param_groups[0]["lr"]}
        self.collapsed = judged.collapsed if self.current.ranks else ""
        self.stuck = self.stuck + 1 if self.collapsed else 0
        fell = self.falls(1) > self.falls()
        self.epoch, self.phase_epoch, self.step = self.epoch + 1, self.phase_epoch + 1, 0
        scores = {part: judged.scores.get(part, judged.score) for part in self.parts}
        better = {p: score for p, score in scores.items() if is_better(score, self.peaks.get(p))}
        self.peaks |= better
        self.waited = 0 if better or fell else self.waited + 1
        if self.current.selects:
            self.keep_best(scores)
        best = {f"best_{part}" if part else "best": n for part, n in self.best.items()}
        row |= best | {"cap": self.current.epochs, "ended": ""}
        self.history.append(row)
        row["ended"] = self.close_phase(progress)
        self.save()
        note = f"epoch {self.epoch} ({row['phase']}): loss {row['loss']:.4g}, {judged.note}"
        for part, score in self.score.items():
            if score is not None:
                named = f" {part}" if part else ""
                note += f", best{named} {score:.1f} in epoch {self.best[part]}"
        say(note)

    def falls(self, later: int = 0) -> int:
        """How often the learning rate has fallen `later` epochs from now."""
        past = self.epoch + self.skipped if self.current.lr is None else self.phase_epoch
        return self.schedule.falls(past + later)

    def row(self) -> Row:
        """Means of the running epoch: the loss, its terms, and what is watched."""
        steps = self.steps(self.current)
        means = {name: total.item() / steps for name, total in self.terms.items()}
        row = {"epoch": self.epoch + 1, "phase": self.current.name, "loss": sum(means.values())}
        row |= {f"loss_{name}": mean for name, mean in means.items() if name}
        return row | {name: figure.item() / steps for name, figure in self.figures.items()}

    def keep_best(self, scores: Mapping[str, float | None]) -> None:
        """Copy the weights of parts that are better than those that were kept until here."""
        for part, score in scores.items():
            if is_better(score, self.score[part]):
                self.best[part], self.score[part] = self.epoch, score
                for name, value in self.model.state_dict().items():
                    if name.startswith(self.parts[part]):
                        self.best_weights[name] = value.detach().cpu().clone()

    def close_phase(self, progress: Progress) -> str:
        """Leave out epochs that would gain nothing, and go on when the phase is over; why it is:
        epochs (all are trained), converged or patience, "" while it is not."""
        left, why, skip = self.current.epochs - self.phase_epoch, "epochs", 0
        if left and self.has_converged():
            say(f"phase {self.current.name} has converged after {self.phase_epoch} epochs")
            why, skip = "converged", left
        elif left and self.waited == self.schedule.patience:
            skip = next((n for n in range(1, left) if self.falls(n) > self.falls()), left)
            why = "patience"
            then = f"phase {self.current.name} ends" if skip == left else "the learning rate falls"
            say(f"no better validation for {self.waited} epochs: {then}")
            self.waited = 0
        if skip:
            progress.update(skip * self.steps(self.current))
        if skip == left:
            self.phase, self.phase_epoch, self.peaks, self.waited = self.phase + 1, 0, {}, 0
            return why
        self.phase_epoch, self.skipped = self.phase_epoch + skip, self.skipped + skip
        return ""

    def has_converged(self) -> bool:
        """Whether WINDOW epochs lowered the mean loss by too small a share of that of as many
        before them."""
        name, least = self.current.name, self.current.stop_below
        losses = [row["loss"] for row in self.history if row["phase"] == name][-2 * WINDOW :]
        if len(losses) < 2 * WINDOW or not least:
            return False
        before, after = sum(losses[:WINDOW]), sum(losses[WINDOW:])
        return bool(before - after < least * abs(before))

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
        state = {"model": self.model.state_dict(), "optimiser": self.optimiser.state_dict()}
        state["random"] = random_states()
        self.resume.save(state | {name: getattr(self, name) for name in STATE})

    def restore(self) -> None:
        state = on_first(self.resume.load)
        if state is None:
            return
        self.model.load_state_dict(state["model"])
        self.optimiser.load_state_dict(state["optimiser"])
        restore_random_states(state["random"])
        for name in STATE:
            setattr(self, name, state[name])
        for sums in (self.terms, self.figures):
            sums |= {name: value.to(self.device) for name, value in sums.items()}
        say(f"continuing after {self.epoch} epochs and {self.step} steps")


def is_better(score: float | None, before: float | None) -> bool:
    """Whether a score is above the best before it; without scores the last is the best."""
    return score is None or before is None or score > before


class _Step(nn.Module):
    """A model with its objective: DistributedDataParallel averages gradients of a module."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, objective: Objective, batch: Any) -> tuple[Sums, Sums]:
        """The loss's terms, and what is watched beside them."""
        result = objective(self.model, batch)
        seen = result if isinstance(result, Watched) else Watched(result, {})
        terms = seen.loss if isinstance(seen.loss, Mapping) else {"": seen.loss}
        return dict(terms), dict(seen.figures)


def added(sums: Sums, more: Sums) -> Sums:
    return {name: sums.get(name, 0) + value.detach().double() for name, value in more.items()}
