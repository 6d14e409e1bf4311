"""SCAN and DP-RNN, trained once."""

import shutil

import pytest
from model_runs import DP_RNN, SCAN


@pytest.fixture(scope="session")
def both_trained(world, tmp_path_factory):
    folder = tmp_path_factory.mktemp("both_trained")
    shutil.copytree(world, folder, dirs_exist_ok=True)
    for run in (SCAN, DP_RNN):
        run.train(folder)
    return folder


@pytest.fixture
def trained(both_trained, tmp_path):
    """A folder with both models trained with the parameters as they are."""
    shutil.copytree(both_trained, tmp_path, dirs_exist_ok=True)
    return tmp_path
