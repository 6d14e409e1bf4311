"""What a tiny dual path is trained on, made once."""

import pytest
from dual_path_runs import write_world


@pytest.fixture(scope="session")
def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("world")
    write_world(folder)
    return folder
