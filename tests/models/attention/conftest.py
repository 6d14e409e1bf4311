"""The models on regions, trained once."""

import shutil

import pytest
from model_runs import DP_RNN, SCAN, VSE_INFINITY


@pytest.fixture(scope="session")
def all_trained(world, tmp_path_factory):
    folder = shutil.copytree(world, tmp_path_factory.mktemp("all_trained"), dirs_exist_ok=True)
    for run in (SCAN, DP_RNN, VSE_INFINITY):
        run.train(folder)
    return folder


@pytest.fixture
def trained(all_trained, tmp_path):
    return shutil.copytree(all_trained, tmp_path, dirs_exist_ok=True)
