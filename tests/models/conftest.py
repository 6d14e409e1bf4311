"""The inputs of models that read tables of features, made once."""

import shutil

import pytest
from tiny_inputs import write_inputs, write_regions, write_sentences


@pytest.fixture(scope="session")
def world(tmp_path_factory):
    """All that the stages before training leave."""
    folder = tmp_path_factory.mktemp("world")
    write_inputs(folder)
    write_sentences(folder)
    write_regions(folder)
    return folder


@pytest.fixture
def folder(world, tmp_path):
    """A copy of the world for one test."""
    return shutil.copytree(world, tmp_path, dirs_exist_ok=True)
