"""Networks as ONNX files, each compared with the model at several batch sizes and lengths: a
recurrent network can be exported silently wrong, computing all by the sizes of the first."""

import contextlib
import io
import logging
import warnings
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from models.backbone.image_cnn import crops_of
from models.backbone.network import ImageNetwork, read_network
from models.base.queries import Files
from models.base.towers import BATCHES, LENGTHS, Tower
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.files import atomic_path
from pipeline.runtime.process import say

TOLERANCE = 1e-5  # of unit rows; float32 in another order of sums differs by some 1e-7
OUTPUT = "vector"


class CropFeatures(nn.Module):
    """The network behind image features: crops (B, 3, S, S) uint8 to features (B, D) float32, the
    mean over a crop and its mirror image where the corpus's are."""

    def __init__(self, network: ImageNetwork) -> None:
        super().__init__()
        self.backbone, self.preprocessing = network.backbone, network.preprocessing

    def forward(self, images: Tensor) -> Tensor:
        views = [self.backbone(view) for view in self.preprocessing.inputs(images[:, None])]
        return torch.stack(views).mean(0)


def write_networks(
    folder: Path, towers: Mapping[str, Tower], files: Files, sizes: Mapping[str, Any]
) -> dict[str, Any]:
    """Export both towers and the image network, if the image tower has none (a model whose features
    come from a file gets none); returns how an image becomes a crop, for config.json. sizes: the
    architecture of the model."""
    networks = {f"{side}_tower": tower for side, tower in towers.items()}
    crops = crops_of(sizes) if "image_model" in sizes else None
    if crops is None:
        try:
            network = read_network(files["image_network"])
        except WorkbenchError as error:
            say(f"no image_network.onnx: {error.message}")
        else:
            crops = network.preprocessing
            pixels = torch.zeros((2, 3, crops.crop, crops.crop), dtype=torch.uint8)
            features = CropFeatures(network)
            networks["image_network"] = Tower(features, {"images": pixels}, largest={"images": 256})
    for name, tower in networks.items():
        difference = write_tower(folder / f"{name}.onnx", tower)
        say(f"{name}.onnx: differs from the model by {difference:.1g} at most")
    if crops is None:
        return {}
    crop: dict[str, Any] = {"resize": crops.resize, "squash": crops.squash}
    crop |= {"resampling": crops.resampling.name, "side": crops.crop}
    crop |= {"channels": "BGR" if crops.bgr else "RGB", "views": crops.views}
    return {"crop": crop}


def write_tower(path: Path, tower: Tower) -> float:
    """Export a network; returns the largest difference from the model's numbers, as a share of the
    largest number where that is above 1."""
    try:
        import onnxruntime
        import onnxscript  # noqa: F401 - torch's exporter needs it
    except ModuleNotFoundError as error:
        cause = f"{error.name} is not installed: ONNX files need the extra onnx"
        way_out = "pip install --constraint constraints.txt --editable '.[onnx]'"
        raise WorkbenchError(cause, way_out) from None
    with atomic_path(path) as temporary:
        _export(temporary, tower)
        session = onnxruntime.InferenceSession(str(temporary), providers=["CPUExecutionProvider"])
        generator, largest = torch.Generator().manual_seed(0), 0.0
        for batch, length in product(BATCHES, LENGTHS if tower.words else LENGTHS[:1]):
            example = tower.example(batch, length, generator)
            with torch.inference_mode():
                ours = tower.module(**example).numpy()
            theirs = session.run(None, {key: value.numpy() for key, value in example.items()})
            scale = max(1.0, float(np.abs(ours).max()))
            largest = max(largest, float(np.abs(ours - theirs[0]).max()) / scale)
        if not largest <= TOLERANCE:
            cause = f"{path.name}: its vectors differ from the model's by {largest:.2g}"
            way_out = "leave --onnx out: the folder's own weights are right"
            raise WorkbenchError(f"{cause}; allowed is {TOLERANCE:g}", way_out)
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
