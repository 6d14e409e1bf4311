"""Files of vectors as other programs write them, in every format that is read."""

import json

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from safetensors.torch import save_file

FORMATS = (".npy", ".npz", "_packed.npz", ".h5", "_chunked.hdf5", ".parquet", ".safetensors")


def write_vectors(folder, ending, ids, vectors, names=("ids", "features"), beside=".ids.txt"):
    """Write N ids and vectors (N, D) into folder/clip<ending>; returns its path.

    names: of both in the file; beside: the ending of the file of ids of .npy and .safetensors.
    """
    path = folder / f"clip{ending}"
    ids_name, name = names
    if path.suffix == ".npy":
        np.save(path, vectors)
    elif path.suffix == ".npz":
        save = np.savez_compressed if "packed" in ending else np.savez
        save(path, **{ids_name: np.array(ids), name: vectors})
    elif path.suffix in (".h5", ".hdf5"):
        write_hdf5(path, ids_name, ids, name, vectors, chunked="chunked" in ending)
    elif path.suffix == ".parquet":
        kind = pa.list_(pa.from_numpy_dtype(vectors.dtype), vectors.shape[1])
        column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), type=kind)
        table = pa.table({"other": np.arange(len(ids)), ids_name: list(ids), name: column})
        pq.write_table(table, path, row_group_size=4)
    else:
        save_file({name: torch.from_numpy(vectors.copy()), "more": torch.ones(2)}, path)
    if path.suffix in (".npy", ".safetensors"):
        write_ids(path, ids, beside)
    return path


def write_hdf5(path, ids_name, ids, name, vectors, chunked):
    """Texts of variable length and compressed chunks, or fixed length and contiguous."""
    with h5py.File(path, "w") as file:
        if chunked:
            file.create_dataset(ids_name, data=list(ids), dtype=h5py.string_dtype())
            rows = min(4, len(vectors))
            chunks = (rows, *vectors.shape[1:])
            file.create_dataset(name, data=vectors, chunks=chunks, compression="gzip")
        else:
            file[ids_name] = np.array([text.encode() for text in ids])
            file[name] = vectors


def write_ids(path, ids, ending):
    target = path.with_name(path.stem + ending)
    if ending.endswith(".txt"):
        target.write_text("".join(f"{name}\n" for name in ids))
    elif ending.endswith(".json"):
        target.write_text(json.dumps(list(ids)))
    else:
        np.save(target, np.array(ids))
