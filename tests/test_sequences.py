"""Some sequences of edits, runs and kills; that the seed alone decides them; and that what would
be wrong is seen. `SEQUENCES=200 pytest tests/test_sequences.py` plays as many."""

import os
import re
import subprocess
import sys

import pytest
from clone import ROOT
from corpora import change_params
from warm_python import warm_python

from pipeline.runtime.yaml_text import read_yaml
from tests.sequences.__main__ import PYTHON
from tests.sequences.clones import LAST, Clones
from tests.sequences.kills import Kill
from tests.sequences.machine import AGAIN, STEPS, WAYS_OUT, Play, SequenceMachine, draw

SEED = os.environ.get("SEQUENCES_SEED", "1")
COUNT = os.environ.get("SEQUENCES", "3")


def drawn(seed, number):
    """The steps of a sequence that is not played."""
    found = []

    class Recorded(SequenceMachine):
        def step(self, name, **values):
            if self.is_played:
                found.append((name, values))
            return False

    draw(seed, number, Recorded, Play(None, None, None))
    return found


def test_the_seed_and_its_number_decide_a_sequence():
    first = [drawn(3, number) for number in range(10)]
    assert [drawn(3, number) for number in range(10)] == first
    assert [drawn(4, number) for number in range(10)] != first
    assert sum(len(steps) == STEPS for steps in first) > 5
    assert len({name for steps in first for name, _ in steps}) > 5


def cut_behind_a_letter_of_a_digest_s_name(text):
    """dvc.lock that ends in `hash: m`, of an output of the first stage."""
    outputs = text.index("outs:")
    return text[: text.index("hash: md5", outputs) + len("hash: m")] + "\n"


@pytest.fixture(scope="module")
def clones(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sequences")
    with warm_python(folder / "python", PYTHON) as python:
        yield Clones(folder / "clones", python, folder / "memory")


@pytest.fixture
def machine(clones):
    """A sequence without steps so far."""
    shared = {"play": Play(clones, None, None), "number": 0, "turns": iter((1,))}
    own = type("Own", (SequenceMachine,), shared)()
    yield own
    own.bench.remove()


@pytest.mark.slow
def test_a_sequence_without_steps_is_equal_to_a_fresh_clone(machine):
    assert machine.last() == "equal"


@pytest.mark.slow
def test_wrong_outputs_that_dvc_takes_for_right_ones_are_seen(machine):
    scores = machine.bench.folder / "data/scores/cca.h5"
    content = bytearray(scores.read_bytes())
    content[-1] ^= 1
    scores.write_bytes(content)
    done = machine.bench.run("dvc", "commit", "--force", "score@cca")
    assert done.code == 0, done.said
    assert machine.last() != "equal"


@pytest.mark.slow
def test_a_stage_that_is_run_alone_after_an_edit_is_refused(machine):
    """Without check_params DVC sees no edit: it would keep the scores as those of the code before,
    and find them right where the edit is undone (sequence 82 of seed 5)."""
    machine.edit_code("model")
    done = machine.bench.run(*AGAIN, "score@cca")
    assert done.code > 0
    assert "error: models/cca.py changed after check_params had listed the code of score@cca" in (
        done.said
    )
    machine.edit_code("model")
    assert machine.last() == "equal"


@pytest.mark.slow
def test_an_edit_of_params_while_a_training_runs_is_refused_and_loses_nothing(machine):
    """DVC records the values that it finds when the stage ends."""
    folder = machine.bench.folder
    change_params(folder, vse={"training": {"epochs": 100}})
    said = ""
    with machine.bench.start("dvc", "repro", "train@vse") as process:
        for line in process.stdout:
            said += line
            if line.startswith("epoch 3 "):
                change_params(folder, vse={"margin": 0.35})
    assert process.returncode > 0
    line = "error: params.yaml was edited while train@vse ran: vse.margin is 0.35 and was 0.2\n"
    assert line in said
    change_params(folder, vse={"margin": 0.2})
    done = machine.bench.run("dvc", "repro", "train@vse")
    assert done.code == 0, done.said
    assert "continuing after 100 epochs" in done.said
    checkpoint = (folder / "data/checkpoints/vse.safetensors").read_bytes()
    done = machine.bench.run(*AGAIN, "train@vse")
    assert done.code == 0, done.said
    assert (folder / "data/checkpoints/vse.safetensors").read_bytes() == checkpoint


# A stage whose model somebody edits when it has compared its code with its list, and not yet
# imported the model.
EDITED_BEFORE_ITS_IMPORT = """
import runpy, sys
from pathlib import Path
import stages.common
compared = stages.common.check_named
def edit(*arguments):
    text = Path("models/cca.py").read_text()
    Path("models/cca.py").write_text(text.replace("images - self", "images - 0.5 * self"))
    compared(*arguments)
stages.common.check_named = edit
runpy.run_module("stages.score", run_name="__main__", alter_sys=True)
"""


@pytest.mark.slow
def test_code_that_is_edited_before_a_stage_imports_it_is_refused(machine):
    folder = machine.bench.folder
    command = read_yaml(folder / "dvc.lock")["stages"]["score@cca"]["cmd"].split()
    assert command[:3] == ["python", "-m", "stages.score"]
    (folder / "edited.py").write_text(EDITED_BEFORE_ITS_IMPORT)
    done = machine.bench.run("python", "-m", "edited", *command[3:])
    assert done.code == 1
    assert "error: models/cca.py changed after check_params had listed" in done.said


@pytest.mark.slow
def test_an_experiment_is_applied_where_only_a_part_of_the_graph_has_run(machine):
    """DVC fails with a list of outputs that were never made, but does all the rest."""
    bench = machine.bench
    done = bench.run("dvc", "exp", "run", "--name", "mine", "-S", "cca.dim=3", LAST)
    assert done.code == 0, done.said
    made = bench.outputs()
    bench.run("git", "checkout", ".")
    assert bench.outputs() != made  # metrics, which git tracks
    done = bench.run("dvc", "exp", "apply", "mine")
    assert "ERROR: Checkout failed for following targets:" in done.said
    ways = (ROOT / "docs/troubleshooting.md").read_text()
    assert "- *Checkout failed for following targets: ...*" in ways
    assert read_yaml(bench.folder / "params.yaml")["cca"]["dim"] == 3
    assert bench.outputs() == made
    status = bench.run("dvc", "status", "--with-deps", LAST)
    assert status.said.strip() == "Data and pipelines are up to date."


@pytest.mark.slow
def test_a_killed_stage_takes_dvc_with_it_or_leaves_it(machine):
    for name, of_group in (("stages.evaluate", True), ("stages.evaluate", False), ("dvc", False)):
        kill = Kill(name, call=2, is_torn=False, of_group=of_group)
        done = machine.bench.run("dvc", "repro", "--force", "--single-item", LAST, kill=kill)
        assert done.code == (255 if (name, of_group) == ("stages.evaluate", False) else -9)
    assert machine.last() == "equal"


@pytest.mark.slow
def test_a_command_that_hangs_says_where(machine, monkeypatch):
    monkeypatch.setattr("tests.sequences.clones.LIMIT", 3)
    for name in ("_transact", "other"):
        text = f"def {name}():\n    while True:\n        pass\n\n\n{name}()\n"
        (machine.bench.folder / "endless.py").write_text(text)
        done = machine.bench.run("python", "-m", "endless")
        assert f" in {name}\n" in done.said
        assert done.fault
        assert done.waits_for_room == (name == "_transact")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "damage", "told"),
    [
        (".dvc/tmp/rwlock", lambda text: '{"/a": {"read', "Unable to read RWLock-file"),
        ("dvc.lock", lambda text: "stages: {a: [1", "dvc.lock' is invalid"),
        ("dvc.lock", lambda text: "schema: '2.0'\nstages:\n  a", "dvc.lock' validation failed"),
        ("dvc.lock", cut_behind_a_letter_of_a_digest_s_name, "failed to reproduce 'check_params':"),
    ],
)
def test_the_documented_ways_out_of_damaged_files_of_dvc_work(machine, name, damage, told):
    path = machine.bench.folder / name
    path.write_text(damage(path.read_text() if path.is_file() else ""))
    machine.step("repro")
    done = machine.bench.run("dvc", "repro", LAST)
    machine.judge(done)
    assert told in done.said
    assert not done.fault
    ways = [way for said, way in WAYS_OUT.items() if re.search(said, done.said, re.MULTILINE)]
    assert [machine.steps[-1]] == [" ".join(way) for way in ways]
    assert told.replace("check_params", "STAGE") in (ROOT / "docs/troubleshooting.md").read_text()
    assert machine.last() == "equal"


@pytest.mark.slow
def test_sequences_end_as_a_fresh_clone_would(tmp_path, clones):
    command = [sys.executable, "-m", "tests.sequences", "--seed", SEED, "--count", COUNT]
    command += ["--results", str(tmp_path / "results"), "--memory", str(clones.memory)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    counts = re.findall(r"\| (\d+) \|", done.stdout)
    assert sum(map(int, counts)) == int(COUNT)
