"""A file that cannot be opened is not called damaged, and nobody is told to delete it."""

import fcntl
import os
import pickle
import shlex
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from commands import refusal

from pipeline.features.arrays.formats import open_arrays
from pipeline.features.feature_file import FeatureFile, write_features
from pipeline.features.hdf5 import opened
from pipeline.features.regions.source import files_of
from pipeline.features.weights import read_weights

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 9\n"


def read(path: Path) -> None:
    with opened(path):
        pass


@pytest.fixture
def features(tmp_path: Path) -> Path:
    path = tmp_path / "image.h5"
    write_features(path, ["a", "b"], {"features": np.ones((2, 3), np.float16)}, {})
    return path


def test_a_file_that_another_program_writes_is_not_damaged(features: Path) -> None:
    script = "import h5py, sys; f = h5py.File(sys.argv[1], 'r+'); print(); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", script, str(features)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        said = refusal(FeatureFile, features)
        same = refusal(open_arrays, features)
        holder.communicate()
    assert said == same
    assert said.startswith(f"{features}: another program has it open for writing\nclose it there")
    for word in ("damaged", "delete", "Errno"):
        assert word not in said
    FeatureFile(features).load()


def test_readers_do_not_hinder_each_other(features: Path) -> None:
    with h5py.File(features, "r"):
        FeatureFile(features).load()
    with open(features, "rb+") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        assert "another program has it open" in refusal(read, features)


def test_a_file_that_was_never_closed_is_named_as_such(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    script = "import h5py, os, sys; f = h5py.File(sys.argv[1], 'w', libver='latest'); "
    script += "f['a'] = [1]; f.flush(); os._exit(0)"
    subprocess.run([sys.executable, "-c", script, str(path)], check=True)
    said = refusal(read, path)
    assert "marked as open for writing" in said
    assert "damaged" not in said


FULL = """
import os, resource, sys
from pathlib import Path
from pipeline.runtime.errors import WorkbenchError
from pipeline.features.hdf5 import opened

resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
with opened(Path(sys.argv[1])):  # once, for all that is loaded with the first file
    pass
taken = []
try:
    while True:
        taken.append(os.open("/dev/null", os.O_RDONLY))
except OSError:
    os.close(taken.pop())  # one is left to look at the first bytes, and HDF5 needs more
try:
    with opened(Path(sys.argv[1])), opened(Path(sys.argv[1])):
        pass
except WorkbenchError as error:
    print(error)
except OSError as error:
    print("raised as it is:", error)
"""


def test_what_the_system_refuses_is_told_as_that(features: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(features)],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[4])},
    )
    assert "Too many open files" in done.stdout, done.stderr
    assert "damaged" not in done.stdout


@pytest.mark.parametrize("content", [b"", bytes(9000), b"no HDF5 at all"])
def test_damage_is_still_damage(features: Path, content: bytes) -> None:
    size = features.stat().st_size
    features.write_bytes(content)
    assert "not an HDF5 file\nif the workbench wrote it" in refusal(read, features)
    os.truncate(features, size // 2)


def test_a_cut_file_is_damaged(features: Path) -> None:
    os.truncate(features, features.stat().st_size // 2)
    assert "damaged: " in refusal(FeatureFile, features)


def test_pointers_in_the_place_of_features_and_weights(tmp_path: Path) -> None:
    for name, call in {
        "a.h5": read,
        "a.npz": open_arrays,
        "a.parquet": open_arrays,
        "a.tsv": lambda path: files_of(path, "*.tsv*"),
        "a.safetensors": lambda path: read_weights(path, "checkpoint", 1),
    }.items():
        path = tmp_path / name
        path.write_bytes(POINTER)
        said = refusal(call, path)
        assert said.startswith(f"{path}: a pointer of git-lfs\n")
        assert f"git -C {tmp_path} lfs pull" in said
    assert "an address: download it first" in refusal(read, Path("https://example.org/a.h5"))


@pytest.mark.parametrize("kind", ["torch", "pickle"])
def test_the_command_saves_an_array_that_is_read(tmp_path: Path, kind: str) -> None:
    path, values = tmp_path / "scores.out", np.arange(6, dtype=np.float32).reshape(2, 3)
    if kind == "torch":
        torch.save(torch.from_numpy(values), path)
    else:
        path.write_bytes(pickle.dumps(values.tolist()))
    said = refusal(open_arrays, path)
    assert said.startswith(f"{path}: allowed endings are .npy, ")
    exec(shlex.split(said.split("instead: ")[1])[2], {})
    saved = open_arrays(Path(f"{path}.npz")).array("features")
    np.testing.assert_array_equal(next(saved.blocks()), values)
    assert "save them as .npz, with an array ids" in refusal(open_arrays, tmp_path / "none.out")


def test_arrays_are_read_as_what_they_are(tmp_path: Path, capsys) -> None:
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.savez(tmp_path / "x.npz", features=values)
    (tmp_path / "x.npz").rename(tmp_path / "x.npy")
    file = open_arrays(tmp_path / "x.npy")
    np.testing.assert_array_equal(next(file.array("features").blocks()), values)
    assert (
        "read as arrays of numpy (.npz), which it is by its first bytes" in capsys.readouterr().err
    )
    torch.save({"features": torch.ones(2)}, tmp_path / "y.npz")
    said = refusal(open_arrays, tmp_path / "y.npz")
    assert said.startswith(f"{tmp_path / 'y.npz'}: a file of torch.save\nsave the values in one of")
