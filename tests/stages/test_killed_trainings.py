"""`python -m stages.train` of every model, killed after an epoch and run again.

The loop is killed at every kind of moment in tests/pipeline/training; here no model may have a
state of its own that the loop does not write.
"""

import shutil

import pytest
from dual_path_runs import RUN as DUAL_PATH
from dual_path_runs import prepare, stage_1, stage_2
from fine_tuning_runs import RUN as FINE_TUNED
from fine_tuning_runs import prepare as prepare_fine_tuning
from forked import run_script
from killed_models import CASES
from tiny_inputs import write_coloured_images, write_inputs, write_regions, write_sentences

pytestmark = pytest.mark.slow

CHANGES = {
    "dp_rnn": {"training__epochs": {"matching": 1, "recurrent": 2, "all": 1}},
    "dual_path": {"phases": [stage_1(2), stage_2(3)]},
    "fine_tuned": {"fine_tuning__epochs": 3},
}


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("killed")
    for name, (run, _) in CASES.items():
        world = folder / name / "never"
        world.mkdir(parents=True)
        if run is DUAL_PATH:
            write_coloured_images(world)
            run.set_params(world)
            prepare(world)
        elif run is FINE_TUNED:
            prepare_fine_tuning(world)
        else:
            write_inputs(world)
            write_sentences(world)
            write_regions(world)
        run.set_params(world, **CHANGES.get(name, {}))
        shutil.copytree(world, folder / name / "killed")
    run_script("killed_models.py", folder)
    return folder


@pytest.mark.parametrize("model", CASES)
def test_killed_and_run_again_it_ends_with_the_same_bytes(outcomes, model):
    run, epoch = CASES[model]
    killed, never = outcomes / model / "killed", outcomes / model / "never"
    assert run.results(killed) == run.results(never)
    lines = (killed / "log").read_text().splitlines()
    assert any(line.startswith("continuing after ") for line in lines)
    told = [line.split()[1] for line in lines if line.startswith("epoch ")]
    assert told == [str(n) for n in range(epoch + 1, len(run.curve(never)) + 1)]
    assert not list((killed / "data/.work").glob("train-*"))
