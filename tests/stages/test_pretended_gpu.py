"""Stages on a pretended GPU: every tensor lies where a GPU needs it, and the results are the CPU's.

Extraction, K-means, the detector and phrases run on it in their own tests.
"""

import shutil

import numpy as np
import pytest
import torch
from dual_path_runs import RUN as DUAL_PATH
from dual_path_runs import stage_1, stage_2, write_world
from model_runs import CCA, DP_RNN, SCAN, TWO_BRANCH, VSE, VSE_INFINITY
from pretended_cuda import OnGpu, on_pretended_gpu, pretended_cuda
from tiny_inputs import write_tables

pytestmark = pytest.mark.slow

RUNS = {run.name: run for run in (CCA, DP_RNN, DUAL_PATH, SCAN, TWO_BRANCH, VSE, VSE_INFINITY)}
SHORT = {name: {"training__epochs": 2} for name in ("scan", "two_branch", "vse", "vse_infinity")}
SHORT["dp_rnn"] = {"training__epochs": {"matching": 1, "recurrent": 1, "all": 1}}
SHORT |= {"cca": {}, "dual_path": {"phases": [stage_1(1), stage_2(1)]}}


@pytest.fixture(scope="module")
def worlds(tmp_path_factory):
    """Inputs of the models that read tables of features, and of the one that reads pixels."""
    tables, pixels = tmp_path_factory.mktemp("tables"), tmp_path_factory.mktemp("pixels")
    write_tables(tables)
    write_world(pixels)
    return {name: pixels if run is DUAL_PATH else tables for name, run in RUNS.items()}


@pytest.mark.parametrize("model", RUNS)
def test_training_and_scores_are_those_of_the_cpu(worlds, tmp_path, model):
    run, cpu, gpu = RUNS[model], tmp_path / "cpu", tmp_path / "gpu"
    for folder in (cpu, gpu):
        shutil.copytree(worlds[model], folder)
        run.set_params(folder, **SHORT[model])
    run.run_training(cpu)
    run.score(cpu)
    with on_pretended_gpu(gpu):
        run.run_training(gpu)
        run.score(gpu)
    theirs = run.checkpoint(gpu).weights
    for name, expected in run.checkpoint(cpu).weights.items():
        torch.testing.assert_close(theirs[name], expected, rtol=1e-3, atol=1e-5)
    for split in ("val", "test"):
        expected = run.scores(cpu, split).scores
        np.testing.assert_allclose(run.scores(gpu, split).scores, expected, rtol=1e-3, atol=1e-5)


def test_what_a_gpu_refuses_is_refused():
    values = torch.randn(4, 3)
    with pretended_cuda():
        there = values.to("cuda")
        assert type(there) is OnGpu
        assert there.device.type == "cuda"
        assert (there * torch.tensor(2.0)).device.type == "cuda"  # single numbers may lie anywhere
        for wrong in (
            lambda: there + values,
            lambda: values[torch.arange(2, device="cuda")],
            lambda: torch.nn.functional.linear(there, torch.randn(2, 3)),
        ):
            with pytest.raises(RuntimeError, match="same device"):
                wrong()
        with pytest.raises(RuntimeError, match="numpy"):
            there.numpy()
