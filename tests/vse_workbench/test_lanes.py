"""Stages side by side: none before what it needs, all of them once, whatever the graph."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vse_workbench.lanes import Failed, in_order, next_chain, run_lanes, with_needed


@st.composite
def graphs(draw):
    """Stages by number; each needs some of the earlier ones."""
    number = draw(st.integers(1, 9))
    return {
        str(stage): {str(other) for other in range(stage) if draw(st.booleans())}
        for stage in range(number)
    }


class Lanes:
    """Runs chains without doing anything, and notes what happened."""

    def __init__(self, needs, failing=None):
        self.needs = needs
        self.failing = failing
        self.ended = []
        self.most = 0
        self.now = 0
        self.changed = threading.Lock()

    def run(self, chain):
        with self.changed:
            self.now += 1
            self.most = max(self.most, self.now)
        for stage in chain:
            with self.changed:
                assert self.needs[stage] <= set(self.ended), f"{stage} before what it needs"
                if stage == self.failing:
                    self.now -= 1
                    raise Failed(stage)
                self.ended.append(stage)
        with self.changed:
            self.now -= 1


@given(needs=graphs(), lanes=st.integers(1, 3))
def test_every_stage_runs_once_behind_what_it_needs(needs, lanes):
    seen = Lanes(needs)
    run_lanes(needs, lanes, seen.run)
    assert sorted(seen.ended) == sorted(needs)
    assert seen.most <= lanes


@given(needs=graphs(), lanes=st.integers(1, 3), data=st.data())
def test_nothing_begins_behind_a_stage_that_failed(needs, lanes, data):
    failing = data.draw(st.sampled_from(sorted(needs)))
    seen = Lanes(needs, failing)
    with pytest.raises(Failed, match=f"stage {failing} failed"):
        run_lanes(needs, lanes, seen.run)
    behind = {name for name in needs if failing in with_needed(needs[name], needs)}
    assert not {failing, *behind} & set(seen.ended)


def test_two_lanes_work_at_the_same_time():
    both = threading.Barrier(2, timeout=60)
    run_lanes({"a": set(), "b": set()}, 2, lambda chain: both.wait())


def test_a_lane_takes_what_becomes_ready_but_leaves_a_fork_to_the_others():
    needs = {
        "corpus": set(),
        "train": {"corpus"},
        "score": {"train"},
        "evaluate": {"score"},
        "attention": {"score"},
        "other": {"corpus"},
        "table": {"evaluate", "attention", "other"},
    }
    assert next_chain(needs, done=[], begun=[]) == ["corpus"]
    begun = ["corpus"]
    assert next_chain(needs, done=begun, begun=begun) == ["train", "score"]
    begun += ["train", "score"]
    assert next_chain(needs, done=["corpus"], begun=begun) == ["other"]
    assert next_chain(needs, done=["corpus"], begun=[*begun, "other"]) == []


@given(needs=graphs())
def test_the_order_of_a_graph_keeps_each_stage_behind_what_it_needs(needs):
    backwards = {name: sorted(needs[name]) for name in reversed(needs)}
    order = in_order(backwards)
    assert sorted(order) == sorted(needs)
    assert all(order.index(other) < order.index(name) for name in needs for other in needs[name])


def test_an_interruption_reaches_what_runs():
    """As the main thread is interrupted while a stage runs."""
    began = threading.Event()
    ended = threading.Event()

    def run(chain):
        began.set()
        assert ended.wait(60)

    def interrupt():
        ended.set()

    def interrupted(*_, **__):
        assert began.wait(60)
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("vse_workbench.lanes.wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run_lanes({"a": set()}, 1, run, interrupt)
