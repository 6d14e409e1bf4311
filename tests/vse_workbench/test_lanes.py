"""Stages side by side: none before what it needs, all of them once, whatever the graph."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import networkx
import pytest
from clone import ROOT
from commands import heed_ctrl_c
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from vse_workbench.lanes import Failed, next_chain, run_lanes, shares, threads_of


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
    graph = networkx.DiGraph([(name, other) for name in needs for other in needs[name]])
    graph.add_nodes_from(needs)
    assert not {failing, *networkx.ancestors(graph, failing)} & set(seen.ended)


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


@pytest.mark.parametrize("at", ["wait", "each_second"])
def test_an_interruption_reaches_what_runs(monkeypatch, at):
    """As the main thread is interrupted while a stage runs, wherever it is."""
    began = threading.Event()
    ended = threading.Event()

    def run(chain):
        began.set()
        assert ended.wait(60)

    def interrupted(*_, **__):
        assert began.wait(60)
        raise KeyboardInterrupt

    each_second = interrupted
    if at == "wait":
        monkeypatch.setattr("vse_workbench.lanes.wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_lanes({"a": set()}, 1, run, ended.set, each_second)
    assert ended.is_set()


@given(number=st.integers(0, 6), processors=st.sets(st.integers(0, 40), min_size=1, max_size=9))
def test_parts_of_the_processors_are_as_equal_as_they_can_be(number, processors):
    parts = shares(sorted(processors), number)
    assert len(parts) == number
    if number > len(processors):
        assert all(part == sorted(processors) for part in parts)
    elif number:
        assert sorted(one for part in parts for one in part) == sorted(processors)
        sizes = [len(part) for part in parts]
        assert max(sizes) - min(sizes) <= 1


def test_the_threads_of_a_session_are_those_of_all_its_processes():
    script = (
        "import subprocess, sys, threading\n"
        "threading.Thread(target=threading.Event().wait, daemon=True).start()\n"
        "child = subprocess.Popen([sys.executable, '-c', 'input()'], stdin=subprocess.PIPE)\n"
        "print(child.pid, threading.get_native_id(), threading.enumerate()[1].native_id)\n"
        "sys.stdout.flush()\n"
        "sys.stdin.read()\n"
        "child.kill()\n"
        "child.wait()\n"  # whoever starts it reaps it: a zombie would still be of the session
    )
    with subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
        text=True,
    ) as process:
        numbers = [int(number) for number in process.stdout.readline().split()]
        assert sorted(threads_of(process.pid)) == sorted(numbers)
        process.stdin.close()
        process.wait()
    assert list(threads_of(process.pid)) == []


# A stage that says when it has begun, waits until an expression is true, and writes what it saw.
STAGE = """
import os, signal, sys, time
from pathlib import Path
name, until = sys.argv[1:]
begun, out = Path(f"{name}.begun"), Path(f"{name}.out")
own = lambda: len(os.sched_getaffinity(0))
least = own()
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    begun.write_text(str(os.getpid()))
    print(name, "begins", flush=True)
    end = time.monotonic() + 60
    while not eval(until):
        least = min(least, own())
        if time.monotonic() > end:
            sys.exit(f"{name} waited in vain for: {until}")
    out.write_text(f"{least} {own()}")
except KeyboardInterrupt:  # not printed by the handler: it may come in the midst of the print above
    sys.exit("stopped cleanly")
"""
BEGINS = "Path('{}.begun').exists()"


@pytest.fixture
def repository(tmp_path):
    """A folder of DVC with check_params, and stages that wait for what is given by name."""

    def made(**waits):
        (tmp_path / "stage.py").write_text(STAGE)
        stages = {"check_params": {"cmd": "python stage.py check_params True", "deps": []}}
        for name, until in waits.items():
            command = f'python stage.py {name} "{until}"'
            stages[name] = {"cmd": command, "deps": ["check_params.out"]}
        for name, stage in stages.items():
            stage["outs"] = [f"{name}.out"]
        with (tmp_path / "dvc.yaml").open("w") as file:
            YAML(typ="safe").dump({"stages": stages}, file)
        dvc = [sys.executable, "-m", "dvc", "init", "--no-scm", "--quiet"]
        subprocess.run(dvc, cwd=tmp_path, check=True)
        return tmp_path

    return made


def repro(folder, *words):
    """`vse repro` in a process of its own, its output by lines."""
    return subprocess.Popen(
        [sys.executable, "-m", "vse_workbench", "repro", *words],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT), "DVC_NO_ANALYTICS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=heed_ctrl_c,
    )


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="two lanes want two processors")
def test_stages_that_run_at_the_same_time_have_processors_of_their_own(repository):
    everything = len(os.sched_getaffinity(0))
    first = f"{BEGINS.format('second')} and own() < {everything}"
    second = f"{BEGINS.format('first')} and Path('first.out').exists() and own() == {everything}"
    folder = repository(first=first, second=second)
    with repro(folder) as process:
        said = process.stdout.read()
    assert process.returncode == 0, said
    assert "first: first begins\n" in said
    least, last = map(int, (folder / "first.out").read_text().split())
    assert least == last < everything
    least, last = map(int, (folder / "second.out").read_text().split())
    assert least < last == everything


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="two lanes want two processors")
def test_a_process_that_was_missed_gets_its_own_processors_a_second_later(repository):
    """It takes all of them again, as one that had been started just then would have them."""
    everything = set(os.sched_getaffinity(0))
    own = f"own() < {len(everything)} and {BEGINS.format('second')}"
    take_all = f"os.sched_setaffinity(0, {everything}) or Path('taken').touch()"
    first = f"{own} and (Path('taken').exists() or {take_all})"
    folder = repository(first=first, second="Path('first.out').exists()")
    with repro(folder) as process:
        said = process.stdout.read()
    assert process.returncode == 0, said


def test_ctrl_c_reaches_the_stages_that_run_and_ends_with_a_line(repository):
    folder = repository(first="False", second="False")
    begun = {"first: first begins\n", "second: second begins\n"}
    said = []
    with repro(folder) as process:
        for line in process.stdout:
            said.append(line)
            if line in begun and begun <= set(said):
                process.send_signal(signal.SIGINT)
    assert process.returncode == 1
    assert "first: stopped cleanly\n" in said
    assert "second: stopped cleanly\n" in said
    assert said[-1] == "error: interrupted; run the same command to continue\n"
    for name in ("first", "second"):
        assert not Path("/proc", (folder / f"{name}.begun").read_text()).exists()
        assert not (folder / f"{name}.out").exists()


def test_a_killed_command_takes_its_stages_with_it(repository):
    folder = repository(first="False")
    with repro(folder) as process:
        for line in process.stdout:
            if line == "first: first begins\n":
                process.kill()
    running = Path("/proc", (folder / "first.begun").read_text())
    end = time.monotonic() + 60
    while running.exists() and time.monotonic() < end:
        pass
    assert not running.exists()


def test_a_second_run_is_refused_with_a_line_and_the_first_goes_on(repository):
    folder = repository(first="Path('second.told').exists()")
    with repro(folder) as process:
        for line in process.stdout:
            if line == "first: first begins\n":
                with repro(folder) as second:
                    said = second.stdout.read()
                (folder / "second.told").touch()
    assert process.returncode == 0
    assert second.returncode == 1
    assert said == (
        f"error: `vse repro` is running already, as process {process.pid}, and would run the same "
        "stages\nwait until it is done, or stop it; what it has finished is kept\n"
    )
    with repro(folder) as process:
        assert "up to date" in process.stdout.read()


def test_a_folder_without_a_repository_is_named(tmp_path):
    with repro(tmp_path) as process:
        said = process.stdout.read()
    assert process.returncode == 1
    assert said.startswith("error: you are not inside of a DVC repository")


def test_a_name_that_dvc_does_not_know_is_named(repository):
    with repro(repository(first="True"), "third") as process:
        said = process.stdout.read()
    assert process.returncode == 1
    assert said.splitlines()[-1].startswith("error: ")
    assert "third" in said.splitlines()[-1]
    assert "Traceback" not in said
