"""What a tiny dual path is trained on, made once."""

import pytest
from dual_path_runs import RUN, prepare
from tiny_inputs import write_coloured_images


@pytest.fixture(scope="session")
def world(tmp_path_factory):
    """All that the stages before training leave."""
    folder = tmp_path_factory.mktemp("world")
    write_coloured_images(folder)
    RUN.set_params(folder)
    prepare(folder)
    return folder
