"""The training loop: kills at any point, schedule, phases, best epoch, and honest failure."""

from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
import torch
from forked import run_script
from killed_training import POINTS, scores_of_batch, toy_model, toy_split
from losses import pair_loss
from ranking_cases import split_of

from pipeline.evaluation.figures import measure, summarise
from pipeline.evaluation.scores import Products
from pipeline.features.split import PairBatches
from pipeline.runtime.errors import WorkbenchError
from pipeline.training.curve import curve_tsv, validate_retrieval, validation_columns
from pipeline.training.process_group import ProcessGroup
from pipeline.training.resume import ResumeFile
from pipeline.training.schedule import Schedule, WarmupSchedule
from pipeline.training.trainer import CollapseCheck, Loss, Phase, Trainable, Trainer, Validation


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """Curve and weights of the toy training for every point at which it was killed."""
    folder = tmp_path_factory.mktemp("killed")
    run_script("killed_training.py", folder)
    return {
        point: [(folder / point / name).read_bytes() for name in ("curve", "weights")]
        for point in POINTS
    }


@pytest.mark.parametrize("point", POINTS[1:])
def test_killed_anywhere_it_ends_with_the_same_bytes(outcomes, point):
    assert outcomes[point][0].decode() == outcomes["never"][0].decode()
    assert outcomes[point][1] == outcomes["never"][1]


class ToyNetwork(Trainable):
    """A small network of vectors; a phase's `section` is its objective, or (objective, prepare)."""

    def __init__(self, toy):
        super().__init__()
        self.toy = toy
        self.model = toy_model()

    def enter(self, phase):
        if isinstance(phase.section, tuple):
            phase.section[1](self.model)

    def batch_loss(self, batch, phase, processes):
        objective = phase.section[0] if isinstance(phase.section, tuple) else phase.section
        found = objective(self.model, batch)
        return found if isinstance(found, Loss) else Loss({"": found})

    def validate(self, val):
        score = val or self.toy.score
        if self.toy.judge is None:
            return validate_retrieval(score())
        return self.toy.judge(score(), self.toy.trainer.state.history)


class Toy:
    def __init__(self, folder):
        torch.manual_seed(0)
        self.network = ToyNetwork(self)
        self.model = self.network.model
        self.batches = PairBatches(toy_split(10, 0), 4, seed=3)
        self.validation = toy_split(6, 1)
        self.loss = pair_loss("sum_margin", 0.2)
        self.phases = [self.phase("only", 4)]
        self.schedule = Schedule(lr_step=2, lr_factor=0.5, clip=1.0, precision="fp32")
        self.resume = ResumeFile(folder / "work", "toy")
        self.judge = None
        self.build_optimiser = lambda weights: torch.optim.Adam(weights, lr=0.01)

    def phase(self, name, epochs, objective=None, batches=None, prepare=None, score=None, **more):
        section = (objective or self.objective, prepare) if prepare else objective or self.objective
        return Phase(name, epochs, batches or self.batches, val=score, section=section, **more)

    def objective(self, model, batch):
        return self.loss(scores_of_batch(model, batch), batch.image_groups)

    def score(self):
        return self.model.score_split(self.validation)

    def fit(self, judge=None, **options):
        self.judge = judge
        self.trainer = Trainer(
            self.schedule, self.build_optimiser, self.resume, ProcessGroup(), **options
        )
        return self.trainer.fit(self.network, self.phases)


@pytest.fixture
def toy(tmp_path):
    return Toy(tmp_path)


def test_it_is_said_once_that_the_memory_of_the_gpu_ran_out(toy, tmp_path, monkeypatch, capsys):
    """The allocator counts what it refused, although cuDNN went on with another algorithm. There is
    no GPU here: its counter is set."""
    expected = Toy(tmp_path / "undisturbed").fit()
    refused = {"num_ooms": 0}

    def judge(found, rows):
        refused["num_ooms"] += int(len(rows) == 2)  # in the third epoch
        return validate_retrieval(found)

    with monkeypatch.context() as patch:
        patch.setattr(torch.cuda, "is_initialized", lambda: True)
        patch.setattr(torch.cuda, "memory_stats", lambda: refused)
        patch.setattr(torch.cuda, "get_rng_state_all", list)
        capsys.readouterr()
        assert toy.fit(judge).history == expected.history
    assert capsys.readouterr().err.count("the memory of the GPU ran out 1 times") == 1


def judged(scores):
    """A judge that gives these scores, an epoch each."""
    return lambda found, rows: Validation({"val_rsum": 1.0}, "", score=float(scores[len(rows)]))


def test_equals_a_plain_loop(toy, tmp_path):
    """The same steps written out: order, clipping, schedule, best epoch by rsum."""
    fitted = toy.fit()
    plain = Toy(tmp_path / "plain")
    losses, rsums, weights = [], [], []
    optimiser = plain.build_optimiser(plain.model.parameters())
    for epoch in range(4):
        optimiser.param_groups[0]["lr"] = [0.01, 0.01, 0.005, 0.005][epoch]
        losses.append([])
        for batch in plain.batches.epoch(epoch):
            loss = plain.objective(plain.model, batch)
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(plain.model.parameters(), 1.0)
            optimiser.step()
            losses[-1].append(loss.item())
        scores = plain.score()
        measured = measure(scores.scores, scores.image_groups, scores.caption_groups)
        rsums.append(summarise(measured)["rsum"])
        weights.append({name: w.clone() for name, w in plain.model.state_dict().items()})
    assert [row["val_rsum"] for row in fitted.history] == rsums
    assert [row["loss"] for row in fitted.history] == [pytest.approx(np.mean(e)) for e in losses]
    assert [row["lr"] for row in fitted.history] == [0.01, 0.01, 0.005, 0.005]
    assert (fitted.epoch, fitted.kept["val_rsum"]) == (int(np.argmax(rsums)) + 1, max(rsums))
    for name, value in weights[fitted.epoch - 1].items():
        assert torch.equal(toy.model.state_dict()[name], value), name


def test_bf16_trains_close_to_fp32(toy, tmp_path):
    exact = toy.fit()
    other = Toy(tmp_path / "bf16")
    other.schedule = Schedule(lr_step=2, lr_factor=0.5, clip=1.0, precision="bf16")
    reduced = other.fit()
    assert reduced.history[0]["loss"] != exact.history[0]["loss"]
    for one, two in zip(exact.history, reduced.history, strict=True):
        assert one["loss"] == pytest.approx(two["loss"], rel=0.05)
    assert all(value.dtype == torch.float32 for value in other.model.state_dict().values())


def test_a_phase_may_have_batches_a_rate_and_a_score_of_its_own(toy):
    sizes, scored = [], []

    def objective(model, batch):
        sizes.append(len(batch))
        return toy.objective(model, batch)

    def score():
        scored.append(1)
        return toy.score()

    other = PairBatches(toy_split(10, 0), 10, seed=3)
    toy.phases = [
        toy.phase("a", 3, objective),
        toy.phase("b", 3, objective, batches=other, lr=0.1, score=score),
        toy.phase("c", 1, objective),
    ]
    history = toy.fit().history
    assert sizes == [4] * 15 + [10] * 6 + [4] * 5
    # halved every 2 epochs: of all of them, or of the phase's own where it has a rate
    rates = [0.01, 0.01, 0.005, 0.1, 0.1, 0.05, 0.00125]
    assert [row["lr"] for row in history] == rates
    assert len(scored) == 3


def test_entering_a_phase_says_which_parts_are_trained_and_comes_after_training_mode(toy):
    seen = []

    def prepare(model):
        seen.append(model.training)
        model.text.requires_grad_(False)

    before = {name: value.clone() for name, value in toy.model.state_dict().items()}
    toy.phases = [toy.phase("images only", 2, toy.objective, prepare=prepare)]
    toy.fit()
    changed = {n for n, v in toy.model.state_dict().items() if not torch.equal(v, before[n])}
    assert changed == {"image_projection.weight", "image_projection.bias"}
    assert seen == [True, True]


def test_a_phase_ends_when_the_loss_falls_by_too_small_a_share(toy, tmp_path):
    """The mean of three epochs against that of the three before, looked at after each epoch."""
    toy.phases = [toy.phase("long", 12, toy.objective)]
    losses = [row["loss"] for row in toy.fit().history]
    means = [np.mean(losses[end - 3 : end]) for end in range(3, 13)]
    shares = [(means[at] - means[at + 3]) / means[at] for at in range(7)]  # after epochs 6 to 12
    limit = sorted(shares)[2] + 1e-9
    first = next(at for at, share in enumerate(shares) if share < limit) + 6
    assert 6 < first < 12
    other = Toy(tmp_path / "stopped")
    long = other.phase("long", 12, other.objective, stop_below=limit)
    other.phases = [long, other.phase("next", 1, other.objective)]
    assert [row["phase"] for row in other.fit().history] == ["long"] * first + ["next"]


@pytest.mark.parametrize(
    ("scores", "rates"),
    [
        # the scheduled fall after epoch 4 starts the wait anew; epochs 7 and 8 are left out, and
        # the third rate ends with the phase's epoch 11, since another fall would be its last
        ([1, 2, 1, 1, 1, 1, 3, 1, 1], [0.01] * 4 + [0.005] * 2 + [0.0025] * 3),
        ([5, 1, 1, 1, 1, 1, 1], [0.01] * 3 + [0.005] * 2 + [0.0025] * 2),  # no rate gains anything
        (range(12), [0.01] * 4 + [0.005] * 4 + [0.0025] * 4),  # every epoch is better
    ],
)
def test_without_a_better_validation_the_rate_falls_and_then_the_phase_ends(
    toy, scores, rates, capsys
):
    """Each of two phases waits for its own best validation."""
    toy.schedule = replace(toy.schedule, lr_step=4, patience=2)
    scripted = [*scores, *scores]
    toy.phases = [toy.phase(name, 12, lr=0.01) for name in ("one", "two")]
    history = toy.fit(judge=judged(scripted)).history
    assert [row["phase"] for row in history] == ["one"] * len(rates) + ["two"] * len(rates)
    assert [row["lr"] for row in history] == rates * 2
    ended = "epochs" if len(rates) == 12 else "patience"
    assert [row["ended"] for row in history] == [*[""] * (len(rates) - 1), ended] * 2
    assert {row["cap"] for row in history} == {12}
    assert history[-1]["best"] == int(np.argmax(scripted)) + 1
    said = capsys.readouterr().err
    assert (": the learning rate falls; " in said) == (ended == "patience")
    for name in ("one", "two"):
        assert said.count(f": phase {name} ends; ") == (ended == "patience")


def test_a_lower_rate_goes_on_from_the_best_weights_of_the_phase(toy):
    """After epoch 4 those of epoch 2 are back, and Adam has no averages of other weights; so is the
    end of a phase. The kept weights are the best of all, whatever follows."""
    starts, states, ends = [], [], []

    def prepare(model):
        starts.append({name: w.clone() for name, w in model.state_dict().items()})
        states.append(len(toy.trainer.optimiser.state))

    def judge(found, rows):
        ends.append({name: w.clone() for name, w in toy.model.state_dict().items()})
        return judged([1, 5, 2, 2, 3, 1, 4, 2, 2, 2, 2])(found, rows)

    toy.schedule = replace(toy.schedule, lr_step=5, patience=2)
    toy.phases = [toy.phase(name, 7, prepare=prepare, lr=0.01) for name in ("one", "two")]
    result = toy.fit(judge=judge)
    assert [row["phase"] for row in result.history] == ["one"] * 6 + ["two"] * 5
    assert [count > 0 for count in states] == [*map(bool, [0, 1, 1, 1, 0, 1, 0, 1, 1, 0, 1])]
    same = [
        [number for number, end in enumerate(ends) if equal_weights(start, end)] for start in starts
    ]
    assert same[1:] == [[0], [1], [2], [1], [4], [1], [6], [7], [6], [9]]
    assert result.epoch == 2
    assert equal_weights(toy.model.state_dict(), ends[1])


def equal_weights(one, two):
    return all(torch.equal(value, two[name]) for name, value in one.items())


def test_the_weights_before_the_first_step_are_validated_as_epoch_0_and_change_no_other(
    toy, tmp_path
):
    """Two phases, so that what the first hands over is seen, too."""
    before = {name: value.clone() for name, value in toy.model.state_dict().items()}
    toy.phases = [toy.phase("one", 2, keeps_start=True), toy.phase("two", 2)]
    found = toy.fit(judge=judged([1, 5, 2, 7, 4]))
    plain = Toy(tmp_path / "plain")
    plain.phases = [plain.phase("one", 2), plain.phase("two", 2)]
    expected = plain.fit(judge=judged([5, 2, 7, 4]))
    assert found.history[1:] == expected.history
    first = {key: found.history[0][key] for key in ("epoch", "phase", "loss", "best")}
    assert first == {"epoch": 0, "phase": "start", "loss": "", "best": 0}
    assert found.epoch == expected.epoch == 3
    assert equal_weights(toy.model.state_dict(), plain.model.state_dict())
    worse = Toy(tmp_path / "worse")
    worse.phases = [worse.phase("one", 2, keeps_start=True), worse.phase("two", 2)]
    kept = worse.fit(judge=judged([3, 1, 2, 3, 2]))  # equal is not better
    assert (kept.epoch, kept.kept) == (0, kept.history[0])
    assert equal_weights(worse.model.state_dict(), before)


def test_a_phase_may_begin_anew_from_the_best_weights_and_keep_its_own(toy):
    """From those of epoch 2 of three, with an Adam that has no averages, and epoch 0's batches. Of
    its own epochs the best is kept, although epoch 2 was better."""
    starts, ends, states, seen = [], [], [], []

    def prepare(model):
        starts.append({name: w.clone() for name, w in model.state_dict().items()})
        states.append(len(toy.trainer.optimiser.state))

    def objective(model, batch):
        seen.append(batch.image_groups.tolist())
        return toy.objective(model, batch)

    def judge(found, rows):
        ends.append({name: w.clone() for name, w in toy.model.state_dict().items()})
        return judged([1, 5, 2, 3, 4])(found, rows)

    toy.phases = [
        toy.phase("one", 3, objective, prepare=prepare),
        toy.phase("two", 2, objective, prepare=prepare, from_best=True),
    ]
    result = toy.fit(judge=judge)
    assert equal_weights(starts[3], ends[1])
    assert not equal_weights(starts[3], ends[2])
    assert [count > 0 for count in states] == [False, True, True, False, True]
    epochs = [seen[at : at + toy.batches.steps] for at in range(0, len(seen), toy.batches.steps)]
    assert epochs[3:] == epochs[:2]
    assert epochs[1] != epochs[0]
    assert result.epoch == 5
    assert equal_weights(toy.model.state_dict(), ends[4])


def test_patience_waits_for_better_than_the_first_weights(toy, capsys):
    """After two epochs that are no better these are back, and the rate falls."""
    starts = []

    def prepare(model):
        starts.append({name: w.clone() for name, w in model.state_dict().items()})

    toy.schedule = replace(toy.schedule, lr_step=9, patience=2)
    toy.phases = [toy.phase("only", 18, prepare=prepare, keeps_start=True)]
    toy.fit(judge=judged([4, 1, 2, 1, 3]))
    assert "the weights of epoch 0 are back" in capsys.readouterr().err
    assert len(starts) == 4
    assert [equal_weights(start, starts[0]) for start in starts] == [True, False, True, False]


@pytest.mark.parametrize("epochs", [6, 20])
def test_with_patience_no_kept_weights_are_worse_than_without(toy, tmp_path, epochs):
    """The same run, stopped at its best epoch before the first fall, is what stays."""
    toy.schedule = replace(toy.schedule, lr_step=20)
    toy.phases = [toy.phase("only", epochs)]
    plain = toy.fit()
    patient = Toy(tmp_path / "patient")
    patient.schedule = replace(toy.schedule, patience=1)
    patient.phases = [patient.phase("only", epochs)]
    result = patient.fit()
    fall = len(result.history)
    stopped = max(row["val_rsum"] for row in plain.history[:fall])
    assert result.kept["val_rsum"] >= stopped


def test_with_a_cosine_patience_ends_the_phase(toy):
    toy.schedule = replace(toy.schedule, patience=2, schedule="cosine")
    toy.phases = [toy.phase("only", 9, toy.objective)]
    history = toy.fit(judge=judged([1, 2, 1, 1, 3])).history
    assert [row["best"] for row in history] == [1, 2, 2, 2]
    assert [row["ended"] for row in history] == ["", "", "", "patience"]
    assert history[2]["lr"] == pytest.approx(0.005 * (1 + np.cos(np.pi * 14 / 45)))


def killed_after(calls):
    """The mean over the rows of a batch as an objective; a kill after so many batches."""

    def objective(model, batch):
        if not left.pop():
            raise KeyboardInterrupt
        scores = scores_of_batch(model, batch)
        return (1 - scores.float().diagonal()).mean()

    left = [False, *[True] * calls]
    return objective


@pytest.mark.parametrize(("precision", "loose"), [("fp32", 1e-5), ("bf16", 0.01)])
def test_accumulated_batches_are_the_large_batch_killed_or_not(tmp_path, precision, loose):
    """Groups of 12 and of 3 + 3 + 2 rows; the kill is between two steps of the second epoch."""
    ended = {}
    runs = ("large", 12, 1, 99), ("small", 3, 4, 99), ("killed", 3, 4, 13), ("killed", 3, 4, 99)
    for name, size, several, calls in runs:
        one = Toy(tmp_path / name)
        one.resume = ResumeFile(tmp_path / name / "work", "toy", 0)
        one.batches = PairBatches(toy_split(10, 0), size, seed=3)
        one.phases = [one.phase("a", 4, killed_after(calls))]
        one.build_optimiser = lambda weights: torch.optim.SGD(weights, lr=0.3)  # Adam forgives much
        one.schedule = replace(one.schedule, accumulate=several, precision=precision, clip=0.0)
        with suppress(KeyboardInterrupt):
            one.fit()
            ended[name] = one.model.state_dict()
    for name, value in ended["small"].items():
        torch.testing.assert_close(value, ended["large"][name], rtol=10 * loose, atol=loose)
        assert torch.equal(value, ended["killed"][name])


def test_epochs_left_out_count_for_the_rate_of_the_next_phases(toy):
    toy.schedule = replace(toy.schedule, lr_step=3, patience=1)
    toy.phases = [toy.phase("one", 4, toy.objective), toy.phase("two", 3, toy.objective)]
    # the epoch after the second is left out
    history = toy.fit(judge=judged([2, 1, 3, 4, 5, 6])).history
    assert [row["phase"] for row in history] == ["one"] * 3 + ["two"] * 3
    assert [row["lr"] for row in history] == [0.01] * 2 + [0.005] * 3 + [0.0025]


def test_epochs_of_a_phase_that_does_not_select_are_not_kept(toy):
    first = toy.phase("a", 3, selects=False)
    toy.phases = [first, toy.phase("b", 1, toy.objective, lr=1e-9)]
    fitted = toy.fit()
    assert fitted.epoch == 4
    assert fitted.kept == fitted.history[3]


def test_a_judge_without_scores_keeps_the_last_epoch_and_gives_its_columns(toy):
    found = iter([0.9, 0.1, 0.2])
    seen = []

    def judge(figure, history):
        seen.append([row["val_figure"] for row in history])
        return Validation({"val_figure": figure}, f"figure {figure}")

    toy.phases, toy.score = [toy.phase("only", 3, toy.objective)], lambda: next(found)
    fitted = toy.fit(judge=judge)
    assert fitted.epoch == 3
    assert [row["val_figure"] for row in fitted.history] == [0.9, 0.1, 0.2]
    assert seen == [[], [0.9], [0.9, 0.1]]
    columns = ["epoch", "phase", "loss", "val_figure", "lr", "best", "cap", "ended"]
    assert list(fitted.kept) == columns


def test_the_sum_of_named_terms_is_minimised_and_each_has_a_column(toy, tmp_path):
    def terms(model, batch):
        loss = toy_terms.objective(model, batch)
        return Loss({"most": 0.75 * loss, "rest": 0.25 * loss})

    plain, toy_terms = toy.fit(), Toy(tmp_path / "terms")
    toy_terms.phases = [toy_terms.phase("only", 4, terms)]
    named = toy_terms.fit()
    for one, two in zip(plain.history, named.history, strict=True):
        assert two["loss"] == pytest.approx(one["loss"], rel=1e-4)
        assert two["loss_most"] == pytest.approx(3 * two["loss_rest"], rel=1e-6)
        assert two["loss_most"] + two["loss_rest"] == pytest.approx(two["loss"], rel=1e-6)
    found = toy_terms.model.state_dict()
    for name, value in toy.model.state_dict().items():
        torch.testing.assert_close(found[name], value, rtol=1e-3, atol=1e-5)


def test_what_is_watched_has_a_column_and_changes_nothing(toy, tmp_path):
    """Means over an epoch's steps, in the epochs whose objective watches it."""
    seen = []

    def watching(model, batch):
        loss = watched.objective(model, batch)
        seen.append(float(batch.captions.lengths[0]))
        return Loss({"": loss}, {"length": loss.new_tensor(seen[-1])})

    watched = Toy(tmp_path / "watched")
    toy.phases = [toy.phase("only", 3, toy.objective), toy.phase("last", 1, toy.objective)]
    watched.phases = [
        watched.phase("only", 3, watching),
        watched.phase("last", 1, watched.objective),
    ]
    plain, found = toy.fit(), watched.fit()
    for name, value in toy.model.state_dict().items():
        assert torch.equal(watched.model.state_dict()[name], value), name
    steps = watched.batches.steps
    means = [sum(seen[n : n + steps]) / steps for n in range(0, 3 * steps, steps)]
    assert [row["length"] for row in found.history[:3]] == pytest.approx(means)
    assert [row["loss"] for row in found.history] == [row["loss"] for row in plain.history]
    assert "length" not in found.history[3]


def test_a_schedule_may_change_the_rate_with_every_step(toy):
    rates = []

    def objective(model, batch):
        rates.append(toy.trainer.optimiser.param_groups[0]["lr"] / toy.rate)
        return toy.objective(model, batch)

    toy.schedule, toy.rate = WarmupSchedule(4, 0.15, 1.0, "fp32"), 0.01
    # 5 steps each; a rate of its own follows the steps of its phase, which are none of the others
    toy.phases = [toy.phase(name, 1, objective) for name in "ab"]
    toy.phases += [toy.phase("c", 1, objective, lr=1)]
    toy.fit()
    rising = [0.25 * 1.0, 0.5 * 0.9, 0.75 * 0.8]
    falling = [*(step / 10 for step in range(7, 1, -1)), 0.15]
    own = [100 * share for share in (0.25, 0.5 * 0.8, 0.75 * 0.6, 0.4, 0.2)]
    assert rates == pytest.approx([*rising, *falling, *own])


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_loss_that_is_not_finite_stops_and_its_term_is_named(toy, bad):
    calls = []

    def terms(model, batch):
        calls.append(1)
        loss = toy.objective(model, batch)
        return Loss({"good": loss, "bad": loss.detach() * (bad if len(calls) == 8 else 1)})

    toy.phases = [toy.phase("only", 4, terms)]
    with pytest.raises(WorkbenchError, match=r"finite in epoch 2, by step 5: bad\nlower lr"):
        toy.fit()


def test_collapse_stops_and_stays_an_error_when_run_again(toy, tmp_path):
    """Images that look all the same leave nothing to learn: rsum stays at chance."""
    for split in (toy.batches.split, toy.validation):
        object.__setattr__(split, "images", lambda rows, generator=None: torch.ones(len(rows), 6))
    toy.phases = [toy.phase("only", 9, toy.objective)]
    with pytest.raises(WorkbenchError, match=r"collapsed: for 5 epochs .*\ntake another way$"):
        toy.fit(advice="take another way")
    again = Toy(tmp_path)
    again.phases = toy.phases
    again.network.enter = lambda phase: pytest.fail("trained on after a collapse")
    with pytest.raises(WorkbenchError, match="collapsed: for 5 epochs"):
        again.fit()


def test_collapse_shows_after_fewer_epochs_than_are_waited_for(toy):
    for split in (toy.batches.split, toy.validation):
        object.__setattr__(split, "images", lambda rows, generator=None: torch.ones(len(rows), 6))
    toy.phases = [toy.phase("only", 2, toy.objective)]
    with pytest.raises(WorkbenchError, match="collapsed: for 2 epochs"):
        toy.fit()


def test_equal_scores_are_no_collapse_where_the_objective_ranks_nothing(toy):
    """A classification may be learnt for long before the two sides agree."""
    for split in (toy.batches.split, toy.validation):
        object.__setattr__(split, "images", lambda rows, generator=None: torch.ones(len(rows), 6))
    toy.phases = [toy.phase("aside", 9, toy.objective, ranks=False)]
    assert len(toy.fit().history) == 9


def is_collapsed(scores, improved):
    """Whether the check counts an epoch of these scores, better than all before or not."""
    check = CollapseCheck("")
    found = validate_retrieval(scores)
    check.observe(found, ranks=True, best=found.score - 1 if improved else found.score)
    return check.epochs == 1


@pytest.mark.parametrize("side", ["images", "captions", "both", "neither"])
def test_collapse_of_either_side_is_seen(side):
    generator = np.random.default_rng(0)
    vectors = generator.normal(size=(2, 40, 8))
    if side in ("images", "both"):
        vectors[0] = vectors[0, 0] + 1e-4 * vectors[0]
    if side in ("captions", "both"):
        vectors[1] = vectors[1, 0] + 1e-4 * vectors[1]
    units = vectors / np.linalg.norm(vectors, axis=2, keepdims=True)
    scores = split_of(units[0] @ units[1].T)
    assert is_collapsed(scores, improved=True) == (side != "neither")


@pytest.mark.parametrize(("difference", "collapsed"), [(1e-1, False), (1e-3, True)])
def test_equal_scores_that_rank_well_must_still_improve(difference, collapsed):
    """Max-margin after a warm-up can keep its ranking in differences that cost no loss any more."""
    scores = split_of(0.9 + difference * np.eye(40))
    assert not is_collapsed(scores, improved=True)
    assert is_collapsed(scores, improved=False) == collapsed


@pytest.mark.parametrize("block", [(1024, 1000), (2, 3)])
def test_products_of_embeddings_are_judged_as_their_matrix(monkeypatch, block):
    monkeypatch.setattr("pipeline.evaluation.scores.BLOCK", block)
    random = np.random.default_rng(0)
    images, captions = random.normal(size=(2, 7, 4)).astype(np.float32)
    products = replace(split_of(images @ captions.T), scores=Products(images, captions))
    whole = replace(products, scores=products.matrix)
    held, found = (validation_columns(split) for split in (whole, products))
    assert found == held
    assert found["val_spread"] == pytest.approx(
        min((images @ captions.T).std(axis).mean() for axis in (0, 1)), rel=1e-5
    )


def test_a_column_that_some_epochs_lack_is_empty_there():
    text = curve_tsv([{"epoch": 1, "a": 1 / 3, "lr": 1e-7}, {"epoch": 2, "lr": 1.0, "b": 3}])
    *lines, last = [line.rpartition("\t") for line in text.splitlines()]
    assert [line for line, _, _ in lines] == ["epoch\ta\tlr\tb", "1\t0.333333\t1e-07\t"]
    assert [end for _, _, end in lines] == ["sha256", ""]
    assert last[0] == "2\t\t1\t3"
    assert len(last[2]) == 64
