"""Towers as ONNX files, each compared with the model at several batch sizes and lengths.

A recurrent network can be exported silently wrong: traced with one batch size or length, it may
compute others by the sizes of the first. So no file is kept whose numbers differ.
"""

import contextlib
import io
import logging
import warnings
from itertools import product
from pathlib import Path

import numpy as np
import torch

from models.base.towers import BATCHES, LENGTHS, Tower
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.files import atomic_path

TOLERANCE = 1e-5  # of unit rows; float32 in another order of sums differs by some 1e-7
OUTPUT = "vector"


def write_tower(path: Path, tower: Tower) -> float:
    """Export one side of a model; returns the largest difference from the model's numbers."""
    try:
        import onnxruntime
        import onnxscript  # noqa: F401 - torch's exporter needs it
    except ModuleNotFoundError as error:
        raise WorkbenchError(
            f"{error.name} is not installed: ONNX files need the extra onnx",
            "pip install --constraint constraints.txt '.[onnx]'",
        ) from None
    with atomic_path(path) as temporary:
        _export(temporary, tower)
        session = onnxruntime.InferenceSession(str(temporary), providers=["CPUExecutionProvider"])
        generator, largest = torch.Generator().manual_seed(0), 0.0
        for batch, length in product(BATCHES, LENGTHS if tower.words else LENGTHS[:1]):
            example = tower.example(batch, length, generator)
            with torch.inference_mode():
                ours = tower.module(**example).numpy()
            theirs = session.run(None, {key: value.numpy() for key, value in example.items()})
            largest = max(largest, float(np.abs(ours - theirs[0]).max()))
        if not largest <= TOLERANCE:
            raise WorkbenchError(
                f"{path}: its vectors differ from the model's by {largest:.2g}; allowed is "
                f"{TOLERANCE:g}",
                "leave --onnx out: the folder's own weights are right",
            )
    return largest


def _export(path: Path, tower: Tower) -> None:
    batch, words = torch.export.Dim("batch"), torch.export.Dim("words")
    shapes = {
        name: {0: batch, 1: words} if name in tower.words else {0: batch} for name in tower.inputs
    }
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        torch.onnx.export(
            tower.module,
            tuple(tower.inputs.values()),
            path,
            dynamo=True,
            dynamic_shapes=shapes,
            input_names=list(tower.inputs),
            output_names=[OUTPUT],
            external_data=False,
            verbose=False,
        )
