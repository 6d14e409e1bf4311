"""A folder that changes while it is read is refused."""

import os
import re

import pytest

from pipeline.corpus.dataset.folder import unchanged
from pipeline.runtime.errors import WorkbenchError


@pytest.fixture
def raw(tmp_path):
    (tmp_path / "images").mkdir()
    for name in ("images/a.jpg", "images/b.jpg", "captions.csv", "thumbs.db"):
        (tmp_path / name).write_text("image,caption\n")
    (tmp_path / "nowhere.csv").symlink_to(tmp_path / "missing.csv")
    return tmp_path


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda raw: (raw / "images/c.jpg").touch(), "images/c.jpg"),
        (lambda raw: (raw / "images/a.jpg").unlink(), "images/a.jpg"),
        (lambda raw: (raw / "images/a.jpg").write_text("other"), "images/a.jpg"),
        (lambda raw: (raw / "captions.csv").write_text("image\n"), "captions.csv"),
        (lambda raw: os.utime(raw / "captions.csv", (1, 1)), "captions.csv"),
        (lambda raw: (raw / "more").mkdir() or (raw / "more/d.png").touch(), "more/d.png"),
        (lambda raw: (raw / "missing.csv").touch(), "missing.csv, nowhere.csv"),
    ],
)
def test_what_comes_goes_or_changes_meanwhile_is_named(raw, change, named):
    with pytest.raises(WorkbenchError) as caught, unchanged(raw, raw / "made"):
        change(raw)
    assert re.fullmatch(
        f"{re.escape(str(raw))}: [12] files? came, went or changed while it was read: {named}",
        caught.value.message,
    )
    with unchanged(raw, raw / "made"):  # as it now is
        pass


@pytest.mark.parametrize(
    "name", [".hidden", "thumbs.db", "a.jpg.part", "run.log", "notes.txt~", "made/images.parquet"]
)
def test_what_nobody_reads_may_change(raw, name):
    with unchanged(raw, raw / "made"):
        (raw / name).parent.mkdir(exist_ok=True)
        (raw / name).write_text("other")


def test_what_is_no_folder_is_left_to_its_reader(tmp_path):
    with unchanged(tmp_path / "missing", tmp_path):
        pass
