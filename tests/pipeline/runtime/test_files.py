import fcntl
import hashlib
import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.evaluation.scores import temporary_matrix
from pipeline.runtime.files import atomic_path, fingerprint, write_json, write_text


def test_failed_write_leaves_the_old_file_and_no_litter(tmp_path):
    target = tmp_path / "table.tsv"
    write_text(target, "old")

    def stop_half_way():
        with atomic_path(target) as temporary:
            temporary.write_text("new, but only ha")
            raise RuntimeError("half way")

    with pytest.raises(RuntimeError, match="half way"):
        stop_half_way()
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


@pytest.fixture
def brought(monkeypatch):
    """Inodes that were brought to the disk, in order."""
    found, fsync = [], os.fsync

    def noted(handle):
        found.append(os.fstat(handle).st_ino)
        fsync(handle)

    monkeypatch.setattr(os, "fsync", noted)
    return found


def test_a_folder_that_scratch_makes_is_brought_to_the_disk(tmp_path, brought):
    """Whoever publishes in it finds it there."""
    temporary_matrix(tmp_path / "scores", (2, 3))
    assert brought == [tmp_path.stat().st_ino]


def test_new_folders_are_brought_to_the_disk_with_the_file(tmp_path, brought):
    target = tmp_path / "a/b/table.tsv"
    write_text(target, "new")
    # a in its folder, b in a, then the file and its name in b
    folders = [tmp_path, tmp_path / "a", target, tmp_path / "a/b"]
    assert sorted(brought[:2]) == sorted(path.stat().st_ino for path in folders[:2])
    assert brought[2:] == [path.stat().st_ino for path in folders[2:]]


def test_write_json_refuses_nan(tmp_path):
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "m.json", {"r1": float("nan")})
    assert not (tmp_path / "m.json").exists()


@given(st.dictionaries(st.text(), st.integers() | st.text() | st.lists(st.floats(0, 1))))
def test_fingerprint_depends_on_values_not_on_order(parts):
    turned = dict(reversed(list(parts.items())))
    assert fingerprint(parts=parts) == fingerprint(parts=turned)
    assert fingerprint(parts=parts) != fingerprint(parts=parts | {"\0new": 1})
    text = json.dumps({"parts": parts}, sort_keys=True)
    assert fingerprint(parts=parts) == hashlib.sha256(text.encode()).hexdigest()


def test_what_a_kill_left_goes_with_the_next_write_and_what_is_written_stays(tmp_path):
    (tmp_path / ".a.txt.123.part").write_bytes(b"left by a kill")
    (tmp_path / ".b.txt.123.part").write_bytes(b"of another file")
    with open(tmp_path / ".a.txt.456.part", "wb") as other:
        fcntl.flock(other, fcntl.LOCK_SH)  # as a process that is writing holds it
        write_text(tmp_path / "a.txt", "text")
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == [".a.txt.456.part", ".b.txt.123.part", "a.txt"]
