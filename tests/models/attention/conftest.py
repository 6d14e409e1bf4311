"""Regions and captions for SCAN and DP-RNN, made once, and both of them trained once."""

import shutil

import pytest
from model_runs import DP_RNN, SCAN
from tiny_inputs import write_inputs, write_regions


@pytest.fixture(scope="session")
def world(tmp_path_factory):
    """All that the stages before training leave."""
    folder = tmp_path_factory.mktemp("world")
    write_inputs(folder)
    write_regions(folder)
    return folder


@pytest.fixture(scope="session")
def both_trained(world, tmp_path_factory):
    folder = tmp_path_factory.mktemp("both_trained")
    shutil.copytree(world, folder, dirs_exist_ok=True)
    for run in (SCAN, DP_RNN):
        run.train(folder)
    return folder


@pytest.fixture
def folder(world, tmp_path):
    shutil.copytree(world, tmp_path, dirs_exist_ok=True)
    return tmp_path


@pytest.fixture
def trained(both_trained, tmp_path):
    """A folder with both models trained with the parameters as they are."""
    shutil.copytree(both_trained, tmp_path, dirs_exist_ok=True)
    return tmp_path
