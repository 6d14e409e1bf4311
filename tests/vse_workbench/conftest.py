"""One folder as after `dvc repro` with every model, for all tests that look into one."""

import shutil

import pytest
from indexed import make_world


@pytest.fixture(scope="session")
def indexed(tmp_path_factory):
    """Only read: what breaks it takes `folder`."""
    folder = tmp_path_factory.mktemp("indexed")
    make_world(folder)
    return folder


@pytest.fixture(scope="module")
def read_only(indexed):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(indexed)
        yield indexed


@pytest.fixture
def folder(indexed, tmp_path, monkeypatch):
    shutil.copytree(indexed, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path
