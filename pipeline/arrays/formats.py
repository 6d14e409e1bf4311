"""The formats of array files, each read by a module that is imported when such a file is opened."""

from collections.abc import Callable
from pathlib import Path

from pipeline.arrays.file import ArrayFile, damage_named
from pipeline.runtime.errors import WorkbenchError, listing

ENDINGS = (".npy", ".npz", ".h5", ".hdf5", ".parquet", ".safetensors")


def open_arrays(path: Path) -> ArrayFile:
    """Open a file by its ending; WorkbenchError for another ending, no such file, or a damaged
    one."""
    if path.suffix not in ENDINGS:
        raise WorkbenchError(f"{path}: allowed endings are {listing(ENDINGS)}")
    if not path.is_file():
        raise WorkbenchError(f"{path}: no such file")
    read = _reader(path.suffix)
    with damage_named(str(path)):
        return read(path)


def _reader(ending: str) -> Callable[[Path], ArrayFile]:
    # Imports that can be seen in the source: the digest of a stage's code must list these files.
    if ending == ".npy":
        from pipeline.arrays.npy import read_npy

        return read_npy
    if ending == ".npz":
        from pipeline.arrays.npy import read_npz

        return read_npz
    if ending == ".parquet":
        from pipeline.arrays.parquet import read_parquet

        return read_parquet
    if ending == ".safetensors":
        from pipeline.arrays.tensors import read_safetensors

        return read_safetensors
    from pipeline.arrays.hdf5 import read_hdf5

    return read_hdf5
