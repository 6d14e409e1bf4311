"""The formats of array files, each read by a module that is imported when such a file is opened."""

from pathlib import Path

from pipeline.features.arrays.file import ArrayFile
from pipeline.runtime.errors import WorkbenchError, damage_named, listing
from pipeline.runtime.first_bytes import absent, explain, kind_of, python_line, shown_path
from pipeline.runtime.process import say
from pipeline.runtime.section import VECTOR_FILES

# The kind of file that an ending promises, as pipeline.runtime.first_bytes names it.
KINDS = {".h5": "hdf5", ".hdf5": "hdf5", ".mat": "matlab"}
KINDS |= {ending: ending[1:] for ending in VECTOR_FILES if ending not in KINDS}
# Promised kinds with what a file is instead, of which the promised kind's reader says more.
OWN_WORDS = {("npz", "cut_zip"), ("matlab", "hdf5")}

# What saves an array that torch or pickle has written as .npy
SAVE = {
    "torch": "import torch, numpy; numpy.save({target!r}, torch.load({source!r}, "
    "map_location='cpu', weights_only=True).float().numpy())",
    "pickle": "import pickle, numpy; numpy.save({target!r}, "
    "numpy.asarray(pickle.load(open({source!r}, 'rb')), 'f4'))",
}


def _as_array(path: Path) -> str:
    """The command that saves what torch or pickle has written, one array, as .npy."""
    kind = kind_of(path) if path.is_file() else None
    if kind is None or kind.key not in SAVE:
        return ""
    target = f"{path}.npy"
    line = python_line(SAVE[kind.key].format(source=str(path), target=target))
    trusted = "if you trust the file, and it" if kind.key == "pickle" else "if it"
    return f"{trusted} holds one array, save that and name {target} instead: {line}"


def open_arrays(path: Path) -> ArrayFile:
    """Open a file by its first bytes, which outrank its ending; WorkbenchError for endings other
    than those of the formats, and for files of other kinds and damaged ones."""
    if path.suffix not in VECTOR_FILES:
        allowed = f"allowed endings are {listing(VECTOR_FILES)}"
        raise WorkbenchError(f"{path}: {allowed}", _as_array(path))
    if not path.is_file():
        raise WorkbenchError(f"{shown_path(path)}: {absent(path)}")
    found = kind_of(path)
    key = KINDS[path.suffix]
    if found is not None and found.key != key and (key, found.key) not in OWN_WORDS:
        other = explain(path, KINDS.values(), f"save the values in one of {listing(VECTOR_FILES)}")
        if other is not None:
            raise other
        key = found.key
        say(f"{path}: read as {found.title}, which it is by its first bytes")
    # Imports that can be seen in the source: the digest of a stage's code must list these files.
    if key == "npy":
        from pipeline.features.arrays.npy import read_npy as read
    elif key == "npz":
        from pipeline.features.arrays.npy import read_npz as read
    elif key == "parquet":
        from pipeline.features.arrays.parquet import read_parquet as read
    elif key == "matlab":
        from pipeline.features.arrays.mat import read_mat as read
    elif key == "safetensors":
        from pipeline.features.arrays.tensors import read_safetensors as read
    else:
        from pipeline.features.arrays.hdf5 import read_hdf5 as read
    with damage_named(str(path)):
        return read(path)
