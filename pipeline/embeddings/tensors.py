"""safetensors files: one tensor, with its ids beside the file."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open

from pipeline.embeddings.ids import ids_beside
from pipeline.embeddings.source import Block, Embeddings, check_shape, other_type, rows_at_once
from pipeline.runtime.errors import WorkbenchError, listing

# bfloat16 has float32's range: float16 would not hold it
STORED = {"F16": "float16", "BF16": "float32", "F32": "float32", "F64": "float32"}


def read_safetensors(path: Path, ids: str, features: str) -> Embeddings:
    """Vectors in a safetensors file.

    Args:
        path: of the file.
        ids: not read, the ids lie beside it.
        features: name of the tensor.

    Raises:
        WorkbenchError: a damaged file, one without such a tensor, or without ids beside it.
    """
    place = f"{path}, tensor {features}"
    try:
        with safe_open(path, framework="pt") as file:
            names = list(file.keys())
            if features not in names:
                raise WorkbenchError(
                    f"{path}: no tensor {features!r}; it has {listing(names)}",
                    "name the tensor under `file` in params.yaml",
                )
            tensor = file.get_slice(features)
            shape, dtype = tuple(tensor.get_shape()), tensor.get_dtype()
    except SafetensorError as error:
        raise WorkbenchError(f"{path}: not a safetensors file: {error}") from None
    shape = check_shape(place, shape)
    if dtype not in STORED:
        raise other_type(place, dtype)
    ids_path, found = ids_beside(path)
    blocks = partial(_blocks, path, features)
    return Embeddings(path, found, shape, STORED[dtype], blocks, ids_path)


def _blocks(path: Path, name: str) -> Iterator[Block]:
    with safe_open(path, framework="pt") as file:
        tensor = file.get_slice(name)
        count, width = tensor.get_shape()
        rows = rows_at_once(width)
        for start in range(0, count, rows):
            block = tensor[start : start + rows]
            yield (block.float() if block.dtype == torch.bfloat16 else block).numpy()
