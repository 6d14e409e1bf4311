"""The training of any network: epochs and steps, and beside them one class for each concern.

A training is a list of phases, stretches of epochs with one loss on one kind of batches. After
every epoch the network is validated; the weights of the best epoch are kept. Killed at any moment,
a training continues from its last written state and ends with the same bytes.

Beside the loop: learning rate, best weights and patience (schedule.py), whether anything is learnt
(CollapseCheck, here), several processes (process_group.py), the saved state (resume.py).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.process import Progress, say
from pipeline.runtime.repeatable import warn_of_gpu_memory
from pipeline.training.process_group import ProcessGroup
from pipeline.training.resume import ResumeFile, random_states, restore_random_states
from pipeline.training.schedule import (
    SHARE,
    BestWeights,
    Patience,
    Row,
    Schedule,
    WarmupSchedule,
    Weights,
    copy_weights,
)

CHECK_EVERY = 20  # steps between two looks at the loss: on a GPU each one waits for the device
START = "start"  # phase of the row of a curve that has the weights before the first step
WINDOW = 3  # epochs whose mean losses are compared to see whether a phase has converged
COLLAPSED_EPOCHS = 5  # in a row: some runs find the way out within a few
COLLAPSED = "lower the learning rate or train with another loss"
NOT_FINITE = "lower lr, set clip to 2 or so, and look for NaN with: vse inspect FILE.h5"


class Batches(Protocol):
    """A sampler: the batches of an epoch follow from the seed, the epoch and the step alone.

    A batch has a length, for averages over several, and `to(device)`.
    """

    steps: int  # batches of an epoch

    def epoch(self, epoch: int, first: int = 0) -> Iterator[Any]:
        """The batches of an epoch.

        Args:
            epoch: Its number, from 0.
            first: Batches to leave out, which an interrupted training has seen.

        Yields:
            Batches.
        """
        ...


@dataclass(frozen=True)
class Loss:
    """The loss of a batch, and what is shown beside it.

    Args:
        terms: Scalars whose sum is minimised, at least float32; each name gets a column of the
            curve, "" none.
        figures: Scalars that are not minimised; each gets a column.
    """

    terms: dict[str, Tensor]
    figures: dict[str, Tensor] = field(default_factory=dict)

    @property
    def value(self) -> Tensor:
        """What is minimised, a scalar."""
        return torch.stack(list(self.terms.values())).sum()


@dataclass(frozen=True)
class Phase:
    """Epochs with one loss on one kind of batches.

    Args:
        name: As the curve shows it.
        epochs: How many at most.
        batches: The sampler.
        val: What the epochs are validated on; `Trainable.validate` takes it.
        ranking: The ranking loss, if the phase has one; the network owns its weights.
        section: Of params.yaml, what the network's own methods read of this phase.
        lr: First learning rate of this phase alone, with a schedule over its own epochs; None: that
            of the training, over the epochs of all phases without one.
        stop_below: The phase ends when the mean loss of WINDOW epochs fell by a smaller share than
            this; 0: never.
        selects: Whether its epochs may be kept.
        ranks: Whether it pushes scores apart, so that equal ones are a collapse.
        from_best: Whether it begins anew from the best weights so far, with a new optimiser and
            with the sampler's epoch 0; the best of its own epochs is then kept even where that is
            worse, unless it `keeps_start`.
        begin: Called once before it begins, as for hard negatives. A resumed training calls it
            again with the weights it had then.
        keeps_start: Whether the weights before its first step are kept where no epoch is better.
            Those of the first phase are validated for it, as epoch 0.
    """

    name: str
    epochs: int
    batches: Batches
    val: Any = None
    ranking: nn.Module | None = None
    section: Any = None
    lr: float | None = None
    stop_below: float = 0.0
    selects: bool = True
    ranks: bool = True
    from_best: bool = False
    begin: Callable[[], None] | None = None
    keeps_start: bool = False


@dataclass(frozen=True)
class Validation:
    """What an epoch's weights are worth.

    Args:
        columns: Of the curve.
        note: For the line of the epoch.
        score: The weights with the largest are kept; None: those of the last epoch.
        collapsed: In which way nothing is learnt, "" while something is.
        unless_better: Whether that holds only where the score is no new best.
    """

    columns: Row
    note: str
    score: float | None = None
    collapsed: str = ""
    unless_better: bool = False


class Trainable(nn.Module):
    """What the Trainer needs of a network."""

    def enter(self, phase: Phase) -> None:
        """Called in training mode before every epoch: freeze what the phase does not train."""

    def batch_loss(self, batch: Any, phase: Phase, processes: ProcessGroup) -> Loss:
        """The loss of a batch.

        Args:
            batch: On the network's device, the same in all processes.
            phase: The running phase.
            processes: Who shares the rows of the batch.

        Returns:
            The loss of the whole batch.
        """
        raise NotImplementedError

    def validate(self, val: Any) -> Validation:
        """What the weights are worth, in evaluation mode; only process 0 calls it."""
        raise NotImplementedError


class CollapseCheck:
    """Ends a training that learns nothing.

    Args:
        advice: What to try then.
    """

    def __init__(self, advice: str) -> None:
        self.advice = advice
        self.epochs = 0  # collapsed ones in a row
        self.reason = ""

    def observe(self, validation: Validation, ranks: bool, best: float | None) -> None:
        """Take in an epoch.

        Args:
            validation: Of its weights.
            ranks: Whether its phase pushes scores apart.
            best: The largest score of all epochs before, None without one.
        """
        improved = best is None or (validation.score is not None and validation.score > best)
        learns = validation.unless_better and improved
        self.reason = validation.collapsed if ranks and not learns else ""
        self.epochs = self.epochs + 1 if self.reason else 0

    def raise_if_collapsed(self, epochs: int, history: Sequence[Row]) -> None:
        """End a training whose last epochs were all collapsed.

        Args:
            epochs: How many are waited for.
            history: The curve, whose last loss the message names.

        Raises:
            WorkbenchError: So many epochs in a row were collapsed.
        """
        if self.epochs and self.epochs >= epochs:
            raise WorkbenchError(
                f"training has collapsed: for {self.epochs} epochs {self.reason} "
                f"and the loss stands at {history[-1]['loss']:.4g}",
                self.advice,
            )


@dataclass
class State:
    """Where a training is, and what it has seen; saved beside weights and generators."""

    epoch: int = 0  # complete epochs
    step: int = 0  # complete steps of the running epoch
    phase: int = 0  # number of the running phase
    phase_epoch: int = 0  # its complete epochs, those that were left out included
    skipped: int = 0  # epochs left out because a learning rate gained nothing any more
    terms: dict[str, Any] = field(default_factory=dict)  # sums over the epoch of the loss's terms
    figures: dict[str, Any] = field(default_factory=dict)  # and of what is shown beside it
    history: list[Row] = field(default_factory=list)


@dataclass(frozen=True)
class TrainingResult:
    """A training that has ended; the network has the weights that are kept.

    Args:
        epoch: Whose weights these are, from 1, or 0 for those before the first step; of several
            parts the last.
        history: The curve, a row for each epoch, also for epoch 0 where it was validated.
        together: Columns of the validation of parts that were trained in turn; None for one part.
    """

    epoch: int
    history: list[Row]
    together: Row | None = None

    @property
    def kept(self) -> Row:
        """The columns of the kept weights."""
        if self.together is not None:
            return self.together
        return next(row for row in self.history if row["epoch"] == self.epoch)


class Trainer:
    """Trains a network through its phases, validates after every epoch and keeps the best weights.

    Args:
        schedule: Learning rates, and how a step is made.
        build_optimiser: From the network's weights to their optimiser, with its first rate.
        resume: Where an interrupted training keeps its state.
        processes: Who shares every batch.
        advice: What to try after a collapse.
        not_finite: What to try when the loss is not finite.
    """

    def __init__(
        self,
        schedule: Schedule | WarmupSchedule,
        build_optimiser: Callable[[Sequence[nn.Parameter]], torch.optim.Optimizer],
        resume: ResumeFile,
        processes: ProcessGroup,
        advice: str = COLLAPSED,
        not_finite: str = NOT_FINITE,
    ) -> None:
        self.schedule = schedule
        self.build_optimiser = build_optimiser
        self.resume = resume
        self.processes = processes
        self.advice = advice
        self.not_finite = not_finite

    def fit(self, network: Trainable, phases: Sequence[Phase]) -> TrainingResult:
        """Train a network, or go on where that was interrupted.

        Args:
            network: On its device; it is left with the weights that are kept.
            phases: In their order, each of at least one epoch.

        Returns:
            The kept epoch and the curve.

        Raises:
            WorkbenchError: The loss is not finite, or nothing is learnt any more.
        """
        self.network = network
        self.phases = phases
        self.device = next(network.parameters()).device
        self.optimiser = self.build_optimiser(list(network.parameters()))
        self.state = State()
        self.best = BestWeights()
        self.patience = Patience(self.schedule.patience)
        self.collapse = CollapseCheck(self.advice)
        self.begun_from: Weights = {}  # at the begin of a phase with `begin`
        self.rows = 0  # of the batches whose gradients are added up
        self.refused = 0  # times that the GPU had no memory, of which a line has told
        self.processes.use_common_norms(network)
        self.restore()
        total = self.count_batches(phases)
        with Progress("training", total, "steps", self.batches_done()) as progress:
            while self.state.phase < len(phases):
                self.collapse.raise_if_collapsed(COLLAPSED_EPOCHS, self.state.history)
                self.train_epoch(progress)
                self.close_epoch(progress)
        # all epochs of a training may be fewer than are waited for
        waited_for = min(self.state.epoch, COLLAPSED_EPOCHS)
        self.collapse.raise_if_collapsed(waited_for, self.state.history)
        self.best.put_back(network)
        return TrainingResult(self.best.epoch, self.state.history)

    # ---- one epoch

    @property
    def phase(self) -> Phase:
        """The running phase."""
        return self.phases[self.state.phase]

    def train_epoch(self, progress: Progress) -> None:
        """All steps of an epoch, or those that are left of it."""
        state = self.state
        phase = self.phase
        if state.phase_epoch == 0 and state.step == 0:
            self.begin_phase(phase)
        self.network.train()
        self.network.enter(phase)
        # a phase that begins anew counts its epochs from 0
        number = state.phase_epoch if phase.from_best else state.epoch
        for batch in phase.batches.epoch(number, state.step):
            stepped = self.train_step(phase, batch.to(self.device))
            is_checked = state.step % CHECK_EVERY == 0 or state.step == phase.batches.steps
            progress.update(note=self.checked_note() if is_checked else "")
            if stepped and self.resume.due():  # there are no gradients to save
                self.checked_note()
                self.save()

    def begin_phase(self, phase: Phase) -> None:
        """Put the best weights back where the phase wants them, and call its `begin`."""
        self.patience = Patience(self.schedule.patience)
        self.begun_from = {}
        if phase.from_best:
            self.best.put_back(self.network)
            if not phase.keeps_start:
                self.best = BestWeights()
            self.optimiser = self.build_optimiser(list(self.network.parameters()))
        if phase.begin is not None:
            self.begun_from = copy_weights(self.network)
            phase.begin()
        if phase.keeps_start and not self.state.history:
            self.validate_start(phase)

    def validate_start(self, phase: Phase) -> None:
        """Validate the weights before the first step, which are kept where no epoch is better."""
        validation = self.processes.on_rank_zero(lambda: self.network.validate(phase.val))
        self.best.offer(validation.score, 0, self.network)
        self.patience.begin_with(validation.score, self.network)
        row = {"epoch": 0, "phase": START, "loss": ""} | validation.columns
        self.state.history.append(row | {"best": 0})
        say(f"epoch 0 (before training): {validation.note}")

    def train_step(self, phase: Phase, batch: Any) -> bool:
        """Add a batch's gradients up, and take a step if they are enough.

        Args:
            phase: The running phase.
            batch: On the network's device.

        Returns:
            Whether the optimiser took a step.
        """
        state = self.state
        accumulate = self.schedule.accumulate
        position = state.step % accumulate
        if position == 0:
            self.set_learning_rate(phase)
            self.optimiser.zero_grad()
            self.rows = 0
        is_reduced = self.schedule.precision == "bf16"
        with torch.autocast(self.device.type, torch.bfloat16, enabled=is_reduced):
            loss = self.network.batch_loss(batch, phase, self.processes)
        # the last batch of an epoch may have fewer rows
        weight = len(batch) if accumulate > 1 else 1
        (loss.value * weight if accumulate > 1 else loss.value).backward()
        self.rows += weight
        state.step += 1
        add_to(state.terms, loss.terms)
        add_to(state.figures, loss.figures)
        if position + 1 < accumulate and state.step < phase.batches.steps:
            return False
        self.processes.average_gradients(self.network)
        if accumulate > 1:
            for parameter in self.network.parameters():
                if parameter.grad is not None:
                    parameter.grad /= self.rows
        if self.schedule.clip > 0:
            nn.utils.clip_grad_norm_(self.network.parameters(), self.schedule.clip)
        self.optimiser.step()
        return True

    def set_learning_rate(self, phase: Phase) -> None:
        """The rate of the next step: by the phase's own schedule, or by that of all phases that
        have none."""
        state = self.state
        if phase.lr is None:
            sharing = [other for other in self.phases if other.lr is None]
            past = [other for other in self.phases[: state.phase] if other.lr is None]
            epochs = state.epoch + state.skipped
        else:
            sharing = [phase]
            past = []
            epochs = state.phase_epoch
        factor = self.schedule.rate_factor(
            epochs=epochs,
            done=self.count_batches(past) + self.batches_of_phase(),
            total=self.count_batches(sharing),
            steps=phase.batches.steps,
        )
        for group in self.optimiser.param_groups:
            first = group.setdefault("initial_lr", group["lr"])
            own = first if phase.lr is None else phase.lr * group.get(SHARE, 1.0)
            group["lr"] = own * factor

    def checked_note(self) -> str:
        """The running mean loss as a note for the progress bar; WorkbenchError when it is not
        finite."""
        state = self.state
        totals = torch.stack(list(state.terms.values()))
        if not torch.isfinite(totals).all():
            bad = [name for name, total in state.terms.items() if name and not total.isfinite()]
            named = f": {', '.join(bad)}" if bad else ""
            raise WorkbenchError(
                f"the loss is not finite in epoch {state.epoch + 1}, by step {state.step}{named}",
                self.not_finite,
            )
        return f"epoch {state.epoch + 1}, loss {totals.sum().item() / state.step:.4g}"

    # ---- after an epoch

    def close_epoch(self, progress: Progress) -> None:
        """Validate, keep the best weights, lower the rate or end the phase, and write the state."""
        state = self.state
        phase = self.phase
        validation = self.processes.on_rank_zero(lambda: self.network.validate(phase.val))
        scores = [row["val_rsum"] for row in state.history if "val_rsum" in row]
        self.collapse.observe(validation, phase.ranks, max(scores, default=None))
        row = self.mean_row() | validation.columns | {"lr": self.optimiser.param_groups[0]["lr"]}
        fell = self.rate_falls(1) > self.rate_falls()
        state.epoch += 1
        state.phase_epoch += 1
        state.step = 0
        state.terms = {}
        state.figures = {}
        if phase.selects:
            self.best.offer(validation.score, state.epoch, self.network)
        row |= {"best": self.best.epoch, "cap": phase.epochs, "ended": ""}
        state.history.append(row)
        has_run_out = self.patience.has_run_out(
            validation.score, state.epoch, rate_fell=fell, module=self.network
        )
        row["ended"] = self.close_phase(has_run_out, progress)
        self.save()
        note = f"epoch {state.epoch} ({row['phase']}): loss {row['loss']:.4g}, {validation.note}"
        if self.best.score is not None:
            note += f", best {self.best.score:.1f} in epoch {self.best.epoch}"
        say(note)

    def mean_row(self) -> Row:
        """Means over the running epoch: the loss, its terms, and what is shown beside them."""
        state = self.state
        steps = self.phase.batches.steps
        means = {name: total.item() / steps for name, total in state.terms.items()}
        row = {"epoch": state.epoch + 1, "phase": self.phase.name, "loss": sum(means.values())}
        row |= {f"loss_{name}": mean for name, mean in means.items() if name}
        return row | {name: total.item() / steps for name, total in state.figures.items()}

    def rate_falls(self, later: int = 0) -> int:
        """How often the learning rate has fallen `later` epochs from now."""
        state = self.state
        past = state.epoch + state.skipped if self.phase.lr is None else state.phase_epoch
        return self.schedule.count_falls(past + later)

    def close_phase(self, has_run_out: bool, progress: Progress) -> str:
        """Leave out epochs that would gain nothing, and go on when the phase is over.

        Args:
            has_run_out: Whether the patience has.
            progress: Is told of the steps that are left out.

        Returns:
            Why the phase is over: epochs (all are trained), converged or patience; "" while it is
            not.
        """
        state = self.state
        phase = self.phase
        left = phase.epochs - state.phase_epoch
        why = "epochs"
        skip = 0
        if left and self.has_converged():
            say(f"phase {phase.name} has converged after {state.phase_epoch} epochs")
            why = "converged"
            skip = left
        elif left and has_run_out:
            why = "patience"
            now = self.rate_falls()
            skip = next((later for later in range(1, left) if self.rate_falls(later) > now), left)
            then = f"phase {phase.name} ends" if skip == left else "the learning rate falls"
            say(
                f"no better validation for {self.schedule.patience} epochs: {then}; "
                f"the weights of epoch {self.patience.best.epoch} are back"
            )
        if self.patience.best.weights and (skip or not left):
            self.patience.best.put_back(self.network)
            self.optimiser.state.clear()  # averages of gradients belong to other weights
        if skip:
            progress.update(skip * phase.batches.steps)
        if skip == left:
            state.phase += 1
            state.phase_epoch = 0
            self.begun_from = {}
            return why
        state.phase_epoch += skip
        state.skipped += skip
        return ""

    def has_converged(self) -> bool:
        """Whether WINDOW epochs lowered the mean loss by too small a share of as many before."""
        phase = self.phase
        losses = [row["loss"] for row in self.state.history if row["phase"] == phase.name]
        if len(losses) < 2 * WINDOW or not phase.stop_below:
            return False
        before = sum(losses[-2 * WINDOW : -WINDOW])
        after = sum(losses[-WINDOW:])
        return bool(before - after < phase.stop_below * abs(before))

    # ---- counting, and the state of an interrupted training

    def count_batches(self, phases: Sequence[Phase]) -> int:
        """Batches of all epochs of some phases."""
        return sum(phase.epochs * phase.batches.steps for phase in phases)

    def batches_of_phase(self) -> int:
        """Batches of the running phase that are done or left out."""
        return self.state.phase_epoch * self.phase.batches.steps + self.state.step

    def batches_done(self) -> int:
        """Batches of the whole training that are done or left out."""
        past = self.count_batches(self.phases[: self.state.phase])
        return past + (self.batches_of_phase() if self.state.phase < len(self.phases) else 0)

    def save(self) -> None:
        """Write the state, which is the same in all processes."""
        self.refused = warn_of_gpu_memory(self.refused)
        if self.processes.rank_id:
            return
        self.resume.save(
            {
                "model": self.network.state_dict(),
                "optimiser": self.optimiser.state_dict(),
                "random": random_states(),
                "state": asdict(self.state),
                "best": vars(self.best),
                "patience": {"waited": self.patience.waited, "best": vars(self.patience.best)},
                "collapse": {"epochs": self.collapse.epochs, "reason": self.collapse.reason},
                "begun_from": self.begun_from,
            }
        )

    def restore(self) -> None:
        """Go on from the saved state, if there is one."""
        saved = self.processes.on_rank_zero(self.resume.load)
        if saved is None:
            return
        self.state = State(**saved["state"])
        vars(self.best).update(saved["best"])
        self.patience.waited = saved["patience"]["waited"]
        vars(self.patience.best).update(saved["patience"]["best"])
        vars(self.collapse).update(saved["collapse"])
        self.begun_from = saved["begun_from"]
        if self.begun_from:  # what the phase began with follows from the weights it began with
            begin = self.phase.begin
            assert begin is not None
            self.network.load_state_dict(self.begun_from)
            begin()
        self.network.load_state_dict(saved["model"])
        self.optimiser.load_state_dict(saved["optimiser"])
        restore_random_states(saved["random"])
        for sums in (self.state.terms, self.state.figures):
            sums |= {name: value.to(self.device) for name, value in sums.items()}
        say(f"continuing after {self.state.epoch} epochs and {self.state.step} steps")


def add_to(sums: dict[str, Tensor], values: dict[str, Tensor]) -> None:
    """Add values to their sums by name, as float64 on their device.

    Args:
        sums: By name; changed in place.
        values: Scalars by name.
    """
    for name, value in values.items():
        sums[name] = sums.get(name, 0) + value.detach().double()
