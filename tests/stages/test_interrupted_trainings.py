"""`python -m stages.train` of every model, interrupted after an epoch and run again.

The loop is killed at every kind of moment in tests/pipeline/training; here no model may have a
state of its own that the loop does not write.
"""

import shutil

import pytest
from dual_path_runs import RUN as DUAL_PATH
from dual_path_runs import stage_1, stage_2, write_world
from fine_tuning_runs import RUN as FINE_TUNED
from fine_tuning_runs import prepare as prepare_fine_tuning
from model_runs import DP_RNN, SCAN, TWO_BRANCH, VSE
from phrase_runs import PHRASES, write_phrases
from tiny_inputs import write_inputs, write_tables

from pipeline.runtime import files
from pipeline.training import resume
from pipeline.training.resume import ResumeFile

# The run, and the epoch that is the last one written: the second of the one phase that trains what
# no other does, or the first after the warm-up.
# Networks that are trained one after the other go on with the one that was stopped.
CASES = {"dp_rnn": (DP_RNN, 2), "dp_rnn_second": (DP_RNN, 6)}
CASES |= {"dual_path": (DUAL_PATH, 3), "scan": (SCAN, 2)}
CASES |= {"fine_tuned": (FINE_TUNED, 3), "two_branch": (TWO_BRANCH, 2), "vse": (VSE, 2)}
CASES["phrases"] = (PHRASES, 3)  # among hard negatives, which are found again
CHANGES = {
    "dp_rnn": {"training__epochs": {"matching": 1, "recurrent": 2, "all": 1}},
    "dp_rnn_second": {"training__epochs": {"matching": 1, "recurrent": 2, "all": 1}},
    "dual_path": {"phases": [stage_1(2), stage_2(3)]},
    "fine_tuned": {"fine_tuning__epochs": 3},
}
WORLDS = {"dual_path": write_world, "fine_tuned": prepare_fine_tuning, "phrases": write_phrases}


class StoppedError(Exception):
    """What ends a training in the middle."""


@pytest.mark.slow
@pytest.mark.parametrize("model", CASES)
def test_interrupted_and_run_again_it_ends_with_the_same_bytes(tmp_path, monkeypatch, model):
    (run, epoch), never, stopped = CASES[model], tmp_path / "never", tmp_path / "stopped"
    never.mkdir()
    WORLDS.get(model, write_tables)(never)
    run.set_params(never, **CHANGES.get(model, {}))
    shutil.copytree(never, stopped)
    run.run_training(never)
    publish, published = files.publish, []

    def publishing(finished, target):
        published.append(target)
        if len(published) > epoch:  # every epoch's state is published
            raise StoppedError
        publish(finished, target)

    with monkeypatch.context() as patch:
        patch.setattr(files, "publish", publishing)
        with pytest.raises(StoppedError):
            run.run_training(stopped)
    assert not (stopped / "out").exists()
    lines = run.run_training(stopped).splitlines()
    assert run.results(stopped) == run.results(never)
    assert any(line.startswith("continuing after ") for line in lines)
    told = [line.split()[1] for line in lines if line.startswith("epoch ")]
    curve = run.curve(never)
    trained = curve["epoch"][curve["cap"].notna()]  # all but the row of both networks of dp_rnn
    assert told == [str(n) for n in trained[epoch:]]
    assert not list((stopped / "data/.work").glob("train-*"))


def test_other_code_does_not_continue_it(tmp_path, monkeypatch):
    write_inputs(tmp_path)
    monkeypatch.setattr(ResumeFile, "remove", lambda file: None)  # as a kill would leave it
    VSE.run_training(tmp_path)
    assert "continuing after " in VSE.run_training(tmp_path)
    monkeypatch.setattr(resume, "code_digest", lambda: "0" * 64)
    assert "continuing after " not in VSE.run_training(tmp_path)
