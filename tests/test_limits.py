"""Stages where the system gives less than they want: memory, open files, shared memory, a name, a
disk that may be written. Each makes its whole outputs, or says in plain lines what is missing and
leaves nothing."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from clone import ROOT
from full_disk import small_disks
from limited_stages import (
    OPENBLAS,
    become_nobody,
    check_image_in_short_memory,
    clean_process,
    has_made_all,
    limit_files,
    limit_memory,
    prepare,
    tried,
)
from PIL import Image

from pipeline.runtime.errors import LESS_MEMORY
from pipeline.runtime.yaml_text import read_yaml
from tests.campaign.world import Ended, Stage, files_of

pytestmark = pytest.mark.slow

LAST = ["evaluate@vse", "train@scan", "encode_sentences"]
NAMES = [
    "prepare_corpus",
    "build_vocabulary",
    "train_detector",
    "extract_image_features",
    "extract_region_features",
    "encode_sentences",
    "train@scan",
    "train@vse",
    "score@vse",
    "evaluate@vse",
]
MEGABYTES = (0, 8, 24)  # beside what the libraries have taken when the stage begins

Apart = Callable[..., Any]  # calls a function of limited_stages.py in its clean process


@pytest.fixture(scope="module")
def apart(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apart]:
    with clean_process(tmp_path_factory.mktemp("limits") / "world", LAST) as pool:
        yield lambda function, *arguments: pool.submit(function, *arguments).result()


@pytest.mark.parametrize("name", NAMES)
def test_where_memory_ends_nothing_is_half_written_and_a_line_says_what_to_lower(
    apart: Apart, tmp_path: Path, name: str
) -> None:
    refusals = []
    for size in MEGABYTES:
        done, is_whole = apart(tried, name, tmp_path / "at", partial(limit_memory, size))
        if not is_whole and OPENBLAS not in done.said:
            assert LESS_MEMORY in done.said, (size, done.said)
            assert not re.search("error: .*damaged or foreign", done.said)
            refusals.append(size)
    assert refusals


def test_an_image_that_memory_is_too_short_for_is_not_called_a_bad_one(
    apart: Apart, tmp_path: Path
) -> None:
    """A bad image may be left out, corpus.skip_bad_images."""
    path = tmp_path / "large.png"
    Image.new("1", (8000, 8000)).save(path)  # 192 MB as colours
    assert apart(check_image_in_short_memory, path) == 0


def test_what_is_to_be_lowered_are_keys_of_params() -> None:
    params = read_yaml(ROOT / "params.yaml")
    assert {"batch_size", "workers"} <= params["image_features"].keys()
    assert "threads" in params["runtime"]
    assert "## What grows" in (ROOT / "docs/scale.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", NAMES)
def test_sixty_four_open_files_are_enough(apart: Apart, tmp_path: Path, name: str) -> None:
    assert apart(tried, name, tmp_path / "at", partial(limit_files, 64))[1]


@pytest.mark.skipif(os.getuid() != 0, reason="only root becomes a user without an entry")
@pytest.mark.parametrize("name", NAMES)
def test_a_user_without_a_name_runs_the_stages(apart: Apart, tmp_path: Path, name: str) -> None:
    folder = tmp_path / "at"
    for parent in (tmp_path, *tmp_path.parents[:3]):
        if parent.stat().st_uid == os.getuid() and parent != Path("/tmp"):
            parent.chmod(0o755)
    assert apart(tried, name, folder, partial(become_nobody, folder))[1]


MOUNTED = {
    "without shared memory": "mount -t tmpfs -o ro none /dev/shm",
    "read-only": 'mount --bind "$PWD" "$PWD" && mount -o remount,bind,ro "$PWD"',
}


def in_name_space(mount: str, stage: Stage, folder: Path) -> Ended:
    """Run a stage as a process of its own, after a mount that it alone sees."""
    script = f'{mount} && cd "$PWD" && exec "$@"'
    python = [sys.executable, "-m", stage.module, *stage.arguments]
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", script, "sh", *python],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    return Ended(done.returncode, done.stdout + done.stderr)


@pytest.mark.skipif(not small_disks(), reason="no right to mount a file system")
@pytest.mark.parametrize("name", ["extract_image_features"])
def test_without_shared_memory_the_outputs_are_the_same(
    apart: Apart, tmp_path: Path, name: str
) -> None:
    folder = tmp_path / "at"
    stage = apart(prepare, name, folder)
    done = in_name_space(MOUNTED["without shared memory"], stage, folder)
    assert done.code == 0, done.said
    assert apart(has_made_all, stage, folder)


GROUPS = Path("/sys/fs/cgroup/cpu")  # of version 1 of control groups


@pytest.fixture
def half_a_processor() -> Iterator[Path]:
    """A control group whose processes get half of one processor."""
    folder = GROUPS / f"workbench_test_{os.getpid()}"
    try:
        folder.mkdir()
        (folder / "cpu.cfs_period_us").write_text("100000")
        (folder / "cpu.cfs_quota_us").write_text("50000")
    except OSError as error:
        pytest.skip(f"no right to make a control group: {error}")
    yield folder
    folder.rmdir()


@pytest.mark.parametrize("name", ["train@vse", "extract_image_features"])
def test_under_a_quota_a_line_says_what_it_costs_and_the_outputs_are_the_same(
    apart: Apart, tmp_path: Path, name: str, half_a_processor: Path
) -> None:
    """With one thread, half a processor is as one processor to the default of two threads."""
    folder = tmp_path / "at"
    stage = apart(prepare, name, folder)
    done = in_name_space(f"echo $$ > {half_a_processor}/cgroup.procs", stage, folder)
    assert done.code == 0, done.said
    assert "this process may use 0.5 processors, runtime.threads is 1" in done.said
    assert apart(has_made_all, stage, folder)


@pytest.mark.skipif(not small_disks(), reason="no right to mount a file system")
@pytest.mark.parametrize("name", ["check_params", "prepare_corpus", "train@vse", "evaluate@vse"])
def test_a_read_only_repository_is_named(apart: Apart, tmp_path: Path, name: str) -> None:
    folder = tmp_path / "at"
    stage = apart(prepare, name, folder)
    before = files_of(folder)
    done = in_name_space(MOUNTED["read-only"], stage, folder)
    assert done.is_refusal, done.said
    assert "Read-only file system" in done.said
    assert files_of(folder) == before
