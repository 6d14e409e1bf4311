"""safetensors files."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import torch
from safetensors import safe_open

from pipeline.features.arrays.file import Array, ArrayFile, Block

# bfloat16 has float32's range: float16 would not hold it
TYPES = {"F16": "f2", "BF16": "f4", "F32": "f4", "F64": "f8", "BOOL": "?"}
TYPES |= {f"{sign.upper()}{8 * size}": f"{sign}{size}" for sign in "iu" for size in (1, 2, 4, 8)}


def read_safetensors(path: Path) -> ArrayFile:
    """The tensors of a safetensors file; bfloat16 is read as float32."""
    with safe_open(path, framework="pt") as file:
        names = list(file.keys())

    def find(name: str) -> Array | None:
        if name not in names:
            return None
        with safe_open(path, framework="pt") as file:
            tensor = file.get_slice(name)
            shape = tuple(tensor.get_shape())
            dtype = np.dtype(TYPES[tensor.get_dtype()])
        return Array(f"{path}, array {name}", shape, dtype, partial(_rows, path, name))

    return ArrayFile(path, names, find)


def _rows(path: Path, name: str, rows: int) -> Iterator[Block]:
    with safe_open(path, framework="pt") as file:
        tensor = file.get_slice(name)
        for start in range(0, tensor.get_shape()[0], rows):
            block = tensor[start : start + rows]
            yield (block.float() if block.dtype == torch.bfloat16 else block).numpy()
