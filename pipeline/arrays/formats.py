"""The formats of array files, each read by a module that is imported when such a file is opened."""

from pathlib import Path

from pipeline.arrays.file import ArrayFile, damage_named
from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.runtime.section import VECTOR_FILES


def open_arrays(path: Path) -> ArrayFile:
    """Open a file by its ending; WorkbenchError for other endings and damaged files."""
    if path.suffix not in VECTOR_FILES:
        raise WorkbenchError(f"{path}: allowed endings are {listing(VECTOR_FILES)}")
    if not path.is_file():
        raise WorkbenchError(f"{path}: no such file")
    # Imports that can be seen in the source: the digest of a stage's code must list these files.
    if path.suffix == ".npy":
        from pipeline.arrays.npy import read_npy as read
    elif path.suffix == ".npz":
        from pipeline.arrays.npy import read_npz as read
    elif path.suffix == ".parquet":
        from pipeline.arrays.parquet import read_parquet as read
    elif path.suffix == ".mat":
        from pipeline.arrays.mat import read_mat as read
    elif path.suffix == ".safetensors":
        from pipeline.arrays.tensors import read_safetensors as read
    else:
        from pipeline.arrays.hdf5 import read_hdf5 as read
    with damage_named(str(path)):
        return read(path)
