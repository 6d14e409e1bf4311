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

# What saves vectors that something else has written as .npz, and of what form they must be.
_STACKED = "ids=[*d], features=n.stack([n.asarray(v, 'f4') for v in d.values()])"
_SAVED = (
    "n.savez({target!r}, **(dict(features={array}) if not isinstance(d, dict) else "
    "{{k: n.asarray(v) for k, v in d.items()}} if max(n.ndim(v) for v in d.values()) > 1 else "
    "dict(" + _STACKED + ")))"
)
_COLUMNS = (
    "n.savez({target!r}, ids=d.iloc[:, 0].astype(str).tolist(), "
    "features=n.ascontiguousarray(d.iloc[:, 1:], 'f4'))"
)
SAVE = {
    "torch": "import torch, numpy as n; d = torch.load({source!r}, map_location='cpu', "
    "weights_only=True); " + _SAVED.replace("{array}", "d.double().numpy()"),
    "pickle": "import pickle, numpy as n; d = pickle.load(open({source!r}, 'rb')); "
    + _SAVED.replace("{array}", "n.asarray(d, 'f8')"),
    ".csv": "import pandas, numpy as n; d = pandas.read_csv({source!r}, dtype={{0: str}}); "
    + _COLUMNS,
    "parquet": "import pandas, numpy as n; d = pandas.read_parquet({source!r}); "
    "d = d if isinstance(d.index, pandas.RangeIndex) else d.reset_index(); " + _COLUMNS,
    ".json": "import json, numpy as n; d = json.load(open({source!r})); "
    + _SAVED.replace("{array}", "n.asarray(d, 'f8')"),
    "npz": "import numpy as n; d = n.load({source!r}); n.savez({target!r}, " + _STACKED + ")",
    "safetensors": "import safetensors.numpy as s, numpy as n; d = s.load_file({source!r}); "
    "n.savez({target!r}, " + _STACKED + ")",
}
COLUMNS = "if its first column is the ids, and the others are numbers"
FORMS = {
    "torch": "if it holds one array, arrays by their names, or a vector for each id",
    "pickle": "if you trust the file, and it holds one array, arrays by their names, or a vector "
    "for each id",
    ".csv": COLUMNS,
    "parquet": COLUMNS,
    ".json": "if it is lists of numbers, or maps ids to such lists",
}
MAPPED = "if each array is the vector of an id"


def saving(path: Path, key: str) -> str:
    """What to do about a file whose vectors are not read as they are.

    Args:
        path: the file.
        key: its kind, one of `SAVE`.

    Returns:
        The command that saves its vectors as .npz, and of which form they must be.
    """
    target = f"{path}.npz"
    line = python_line(SAVE[key].format(source=str(path), target=target))
    return f"{FORMS.get(key, MAPPED)}, save them and name {target} instead: {line}"


def _way_out(path: Path) -> str:
    """What to do about a file of another ending."""
    kind = kind_of(path) if path.is_file() else None
    for key in (kind.key if kind is not None else "", path.suffix.lower()):
        if key in FORMS:
            return saving(path, key)
    return "save them as .npz, with an array ids of texts and an array features (N, D) of float32"


def open_arrays(path: Path) -> ArrayFile:
    """Open a file by its first bytes, which outrank its ending; WorkbenchError for endings other
    than those of the formats, and for files of other kinds and damaged ones."""
    if path.suffix not in VECTOR_FILES:
        allowed = f"allowed endings are {listing(VECTOR_FILES)}"
        raise WorkbenchError(f"{path}: {allowed}", _way_out(path))
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
