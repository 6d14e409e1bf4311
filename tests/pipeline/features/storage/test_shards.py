"""A feature file made of shards: the bytes of one process, whatever is killed; bad shards refused.

Processes are real ones, of `sharded_program`, which say what they computed in the file `made`.
"""

import os
import re
import signal
import subprocess
import sys
from importlib.util import find_spec

import pytest
from corpora import ROOT
from sharded_program import BATCH, COUNT, MADE

from pipeline.features.feature_file import FeatureFile

ALL = list(range(0, COUNT, BATCH))  # the first rows of all batches
PATHS = os.pathsep.join(map(str, [ROOT, ROOT / "tests/support", os.environ.get("PYTHONPATH", "")]))
PROGRAM = [sys.executable, "-m", "sharded_program", "--output"]
ENVIRONMENT = os.environ | {"PYTHONPATH": PATHS}


def run(folder, output="out.h5", **options):
    words = [word for key, value in options.items() for word in (f"--{key}", str(value))]
    command = [*PROGRAM, output, *words]
    done = subprocess.run(command, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True)
    return done.returncode, done.stderr


def succeed(folder, **options):
    """What was said, and the first rows of the batches that were computed, sorted."""
    (folder / MADE).unlink(missing_ok=True)
    status, said = run(folder, **options)
    assert status == 0, said
    made = (folder / MADE).read_text().split() if (folder / MADE).exists() else []
    return said, sorted(map(int, made))


def ask(folder, *flags):
    for flag in flags:
        (folder / flag).touch()


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    assert succeed(folder)[1] == ALL
    return (folder / "out.h5").read_bytes()


@pytest.fixture
def world(tmp_path, whole):
    """A folder in which a run ends with these bytes, and leaves no shards."""
    yield tmp_path
    assert (tmp_path / "out.h5").read_bytes() == whole
    assert not (tmp_path / "work/shards").exists()


def test_the_same_bytes_with_more_workers_than_shards(world):
    """Shards of five are rounded up to two batches."""
    said, made = succeed(world, shard=5, workers=4)
    assert made == ALL
    assert "3 shards, 0 of them finished before, 4 workers; 1 of these have nothing to do" in said


@pytest.mark.parametrize(
    ("accident", "told", "first"),
    [
        ("kill_itself", "its process was ended by SIGKILL\nrun the same command to continue", 12),
        ("fail", "image 8 is bad\nmend it\n", 12),
        ("lose", "work/shards/.* is missing, though its process came to its end", 8),
        ("kill_driver", None, 12),
    ],
)
def test_a_shard_that_fails_is_named_and_continued_alone(world, accident, told, first):
    """With its driver a process ends, too, and leaves a shard half made, its first batch there."""
    ask(world, f"{accident}-8")
    status, said = run(world, shard=8)
    assert status == (1 if told else -signal.SIGKILL)
    assert told is None or re.search(f"error: shard of rows 8 to 15: {told}", said)
    said, made = succeed(world, shard=8)
    assert "3 shards, 1 of them finished before" in said
    assert made == list(range(first, COUNT, BATCH))


def test_what_a_process_leaves_that_was_killed_before_its_last_line_is_removed(world):
    """Its shard is finished, its folder of unfinished work is still there."""
    ask(world, "kill_before_cleaning-8")
    assert run(world, shard=8)[0] == 1
    assert sorted(path.suffix for path in (world / "work/shards").iterdir()) == ["", ".h5"]
    assert succeed(world, shard=8)[1] == [16, 20]


@pytest.mark.skipif(not find_spec("ray"), reason="the package ray is not installed")
def test_ray_gives_the_same_bytes_after_a_killed_worker_and_a_killed_driver(world):
    """A cluster of two workers. Ray itself gives the task of a worker that died to another."""
    ask(world, "kill_parent-0", "kill_driver-16")
    assert run(world, shard=8, workers=2, engine="ray")[0] == -signal.SIGKILL
    made = set((world / MADE).read_text().split())
    _, again = succeed(world, shard=8, workers=2, engine="ray")
    assert not list(world.glob("kill_*"))
    assert 20 in again
    assert 16 not in again  # it was continued
    assert made | set(map(str, again)) == set(map(str, ALL))


def finished(folder, **options):
    """The file of a finished shard of rows 0 to 7 that was not copied: the driver was killed."""
    ask(folder, "kill_driver_after-0")
    assert run(folder, shard=8, **options)[0] == -signal.SIGKILL
    (path,) = (folder / "work/shards").glob("*.h5")
    assert len(FeatureFile(path)) == 8
    return path


def test_a_finished_shard_is_taken_over_and_a_bad_one_is_refused(world, tmp_path_factory):
    path = finished(world)
    good, other = path.read_bytes(), finished(tmp_path_factory.mktemp("other"), corpus="b")
    bad = {
        good[:-1] + bytes([good[-1] ^ 1]): "damaged: the bytes of dataset 'features' do not match",
        good[: len(good) // 2]: "damaged",
        other.read_bytes(): "not the shard of rows 0 to 7: its corpus_sha256 is b0b1b2b3b4b5b6b7, "
        "not a0a1a2a3a4a5a6a7\ndelete it and run the same command: this shard alone is made again",
    }
    for content, words in bad.items():
        path.write_bytes(content)
        status, said = run(world, shard=8)
        assert status == 1
        assert f"{path.relative_to(world)}: {words}" in said
        assert path.read_bytes() == content
    path.write_bytes(good)
    assert succeed(world, shard=8)[1] == [8, 12, 16, 20]


def test_what_a_process_says_is_said(world):
    ask(world, "fail-8")
    status, said = run(world, shard=8, workers=2)
    assert status == 1
    assert said.endswith("error: shard of rows 8 to 15: image 8 is bad\nmend it\n")
    succeed(world, shard=8)


def test_a_process_that_would_make_other_values_refuses(tmp_path):
    with subprocess.Popen(
        [*PROGRAM, "work/shards/0f.h5", "--rows", "0", "8"],
        cwd=tmp_path,
        env=ENVIRONMENT,
        stderr=subprocess.PIPE,
        stdin=subprocess.PIPE,  # open as long as it runs: it would end with it
        text=True,
    ) as process:
        said = process.stderr.read()
    assert "work/shards/0f.h5: this process would make other values than the one that" in said
    assert not (tmp_path / "work").exists()
