"""SCAN and DP-RNN, trained once."""

import shutil

import pytest
from model_runs import DP_RNN, SCAN


@pytest.fixture(scope="session")
def both_trained(world, tmp_path_factory):
    folder = shutil.copytree(world, tmp_path_factory.mktemp("both_trained"), dirs_exist_ok=True)
    for run in (SCAN, DP_RNN):
        run.train(folder)
    return folder


@pytest.fixture
def trained(both_trained, tmp_path):
    return shutil.copytree(both_trained, tmp_path, dirs_exist_ok=True)
