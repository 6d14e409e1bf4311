"""The inputs of models that read tables of features, made once."""

import pytest
from tiny_inputs import write_tables


@pytest.fixture(scope="session")
def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("world")
    write_tables(folder)
    return folder
