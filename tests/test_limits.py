"""Stages where the system gives less than they want: memory, open files, shared memory, a name, a
disk that may be written. Each makes its whole outputs, or says in plain lines what is missing and
leaves nothing."""

import os
import re
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from clone import ROOT
from forked import Child
from full_disk import small_disks
from PIL import Image

from pipeline.corpus.images import check_image
from pipeline.runtime.errors import LESS_MEMORY, WorkbenchError
from pipeline.runtime.yaml_text import read_yaml
from tests.campaign.world import Ended, Stage, World, files_of, outputs_of, put, run

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
# It says so itself and ends the process with exit code 1, below Python.
OPENBLAS = "OpenBLAS error: Memory allocation still failed"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("limits") / "world", LAST)


def tried(world: World, name: str, folder: Path, first: Callable[[], object]) -> tuple[Ended, bool]:
    """How a stage ended under a limit, which must be whole or refused. Whether it was whole."""
    stage = world.stages[name]
    put(folder, world.before(stage))
    done = run(stage, folder, lambda: (speak_past_pytest(), first()))
    made = outputs_of(stage, files_of(folder))
    if done.code == 0:
        assert made == world.after(stage)
    else:
        assert done.is_refusal or OPENBLAS in done.said, done.said
        assert not made
    return done, done.code == 0


def speak_past_pytest() -> None:
    """A forked process has pytest's own streams in the place of its files 1 and 2."""
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", closefd=False)


@pytest.mark.parametrize("name", NAMES)
def test_where_memory_ends_nothing_is_half_written_and_a_line_says_what_to_lower(
    world: World, tmp_path: Path, name: str
) -> None:
    refusals = []
    for size in MEGABYTES:
        done, is_whole = tried(world, name, tmp_path / "at", memory_of(size))
        if not is_whole and OPENBLAS not in done.said:
            assert LESS_MEMORY in done.said, (size, done.said)
            assert not re.search("error: .*damaged or foreign", done.said)
            refusals.append(size)
    assert refusals


def test_an_image_that_memory_is_too_short_for_is_not_called_a_bad_one(tmp_path: Path) -> None:
    """A bad image may be left out, corpus.skip_bad_images."""
    path = tmp_path / "large.png"
    Image.new("1", (8000, 8000)).save(path)  # 192 MB as colours

    def check() -> None:
        memory_of(8)()
        with pytest.raises(WorkbenchError, match="memory ran out while it was decoded"):
            check_image(str(path), max_pixels=None)

    assert Child("image", check).end()[0] == 0


def memory_of(megabytes: int) -> Callable[[], None]:
    """Give this process so much more memory than it has addresses of now."""

    def limit() -> None:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        size = pages * resource.getpagesize() + (megabytes << 20)
        resource.setrlimit(resource.RLIMIT_AS, (size, size))

    return limit


def test_what_is_to_be_lowered_are_keys_of_params() -> None:
    params = read_yaml(ROOT / "params.yaml")
    assert {"batch_size", "workers"} <= params["image_features"].keys()
    assert "threads" in params["runtime"]
    assert "## What grows" in (ROOT / "docs/scale.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", NAMES)
def test_sixty_four_open_files_are_enough(world: World, tmp_path: Path, name: str) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))

    assert tried(world, name, tmp_path / "at", limit)[1]


# a user without an entry in /etc/passwd, whom the folder belongs to
NOBODY = 54321


@pytest.mark.skipif(os.getuid() != 0, reason="only root becomes a user without an entry")
@pytest.mark.parametrize("name", NAMES)
def test_a_user_without_a_name_runs_the_stages(world: World, tmp_path: Path, name: str) -> None:
    def become() -> None:
        for place in [folder, *folder.rglob("*")]:
            os.chown(place, NOBODY, NOBODY)
        for variable in ("HOME", "USER", "LOGNAME", "LNAME", "USERNAME"):
            os.environ.pop(variable, None)
        os.setgid(NOBODY)
        os.setuid(NOBODY)

    folder = tmp_path / "at"
    for parent in (tmp_path, *tmp_path.parents[:3]):
        if parent.stat().st_uid == os.getuid() and parent != Path("/tmp"):
            parent.chmod(0o755)
    assert tried(world, name, folder, become)[1]


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
    world: World, tmp_path: Path, name: str
) -> None:
    stage, folder = world.stages[name], tmp_path / "at"
    put(folder, world.before(stage))
    done = in_name_space(MOUNTED["without shared memory"], stage, folder)
    assert done.code == 0, done.said
    assert outputs_of(stage, files_of(folder)) == world.after(stage)


@pytest.mark.skipif(not small_disks(), reason="no right to mount a file system")
@pytest.mark.parametrize("name", ["check_params", "prepare_corpus", "train@vse", "evaluate@vse"])
def test_a_read_only_repository_is_named(world: World, tmp_path: Path, name: str) -> None:
    stage, folder = world.stages[name], tmp_path / "at"
    put(folder, world.before(stage))
    before = files_of(folder)
    done = in_name_space(MOUNTED["read-only"], stage, folder)
    assert done.is_refusal, done.said
    assert "Read-only file system" in done.said
    assert files_of(folder) == before
