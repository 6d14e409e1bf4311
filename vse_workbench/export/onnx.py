"""Networks as ONNX files, each compared with the model at several batch sizes and lengths: a
recurrent network can be exported silently wrong, computing all by the sizes of the first.

Both sides of any model whose scores are cosines of vectors are traced through the same methods by
which it is trained and searched: `index(embed_images(...))` and `index(embed_captions(...))`.
"""

import contextlib
import io
import logging
import warnings
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from models.backbone.image_cnn import crops_of, pixels_of
from models.backbone.network import ImageNetwork, read_network
from models.base import Model
from models.layers.sets import GPO
from models.registry import load_model
from pipeline.features.checkpoint import Checkpoint
from pipeline.features.split import Words
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.files import atomic_path
from pipeline.runtime.process import say
from pipeline.runtime.text import Values
from vse_workbench.search.embedder import Files

BATCHES = (1, 3, 8)  # batch sizes at which a network is compared
LENGTHS = (1, 2, 5, 12, 40)  # and words of the longest caption
TOLERANCE = 1e-5  # of unit rows; float32 in another order of sums differs by some 1e-7
OUTPUT = "vector"


@dataclass(frozen=True)
class Traced:
    """A network that can be traced.

    Args:
        module: Takes the inputs by name, gives vectors (B, K).
        inputs: An example of each, with at least two rows.
        words: Inputs whose second dimension is the number of words, any.
        lengths: Inputs that hold the lengths of the captions in words.
        largest: By name the first number that is no value of an input of whole numbers.
    """

    module: nn.Module
    inputs: dict[str, Tensor]
    words: tuple[str, ...] = ()
    lengths: tuple[str, ...] = ()
    largest: dict[str, int] = field(default_factory=dict)

    def example(self, batch: int, length: int, generator: torch.Generator) -> dict[str, Tensor]:
        """Random inputs.

        Args:
            batch: Rows.
            length: Words of the longest caption, where captions have any length.
            generator: Draws.

        Returns:
            Inputs by name.
        """
        inputs = {}
        for name, value in self.inputs.items():
            shape = [batch, *value.shape[1:]]
            if name in self.words:
                shape[1] = length
            if name in self.lengths:
                inputs[name] = torch.randint(1, length + 1, (batch,), generator=generator)
                inputs[name][0] = length
            elif value.is_floating_point():
                inputs[name] = torch.randn(shape, generator=generator)
            else:
                numbers = torch.randint(0, self.largest[name], shape, generator=generator)
                inputs[name] = numbers.to(value.dtype)
        return inputs


class ImageSide(nn.Module):
    """What search compares of images."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Tensor) -> Tensor:
        """Features (B, D) or crops (B, 3, S, S) uint8 to unit rows (B, K)."""
        return self.model.index(self.model.embed_images(images))


class CaptionSide(nn.Module):
    """What search compares of captions that are one tensor."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model

    def forward(self, captions: Tensor) -> Tensor:
        """Sentence vectors (B, E) or words in slots (B, S) to unit rows (B, K)."""
        return self.model.index(self.model.embed_captions(captions))


class WordSide(nn.Module):
    """What search compares of captions of any length."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Padded word ids (B, T) with lengths (B,) to unit rows (B, K).

        Args:
            tokens: (B, T) word ids, padded at the end.
            lengths: (B,) words of each caption.

        Returns:
            Unit rows (B, K).
        """
        return self.model.index(self.model.embed_captions(Words(tokens, lengths)))


def open_sides(name: str, checkpoint: Checkpoint) -> dict[str, Traced]:
    """Both sides of a model, with examples of their inputs.

    Args:
        name: Of the model.
        checkpoint: Its weights.

    Returns:
        By side: image, caption.

    Raises:
        WorkbenchError: The model compares more than vectors, reads regions, or has a pooling that
            sorts.
    """
    kind = load_model(name)
    if not kind.VECTORS or kind.NEEDS["features"].endswith("regions.h5"):
        raise WorkbenchError(
            f"{name}: it reads regions, whose number differs: it cannot be written as ONNX",
            "export without --onnx",
        )
    model = kind.from_checkpoint(checkpoint, name)
    if any(isinstance(part, GPO) for part in model.modules()):
        raise WorkbenchError(
            f"{name}.text_pool = gpo: its sorting cannot be written as ONNX",
            "export without --onnx",
        )
    sizes = checkpoint.description.architecture
    return {"image": _image_side(model, sizes), "caption": _caption_side(model, sizes)}


def _image_side(model: Model, sizes: Any) -> Traced:
    if "image_model" not in sizes:
        return Traced(ImageSide(model), {"images": torch.zeros(2, int(sizes["image_dim"]))})
    side = int(sizes["image_crop"])
    pixels = torch.cat([pixels_of(sizes)(Image.new("RGB", (side, side)))] * 2)
    return Traced(ImageSide(model), {"images": pixels}, largest={"images": 256})


def _caption_side(model: Model, sizes: Any) -> Traced:
    if "sentence_dim" in sizes:
        sentences = torch.zeros(2, int(sizes["sentence_dim"]))
        return Traced(CaptionSide(model), {"captions": sentences})
    vocabulary = int(sizes["vocabulary_size"])
    if "slots" in sizes:
        slots = torch.zeros((2, int(sizes["slots"])), dtype=torch.int64)
        return Traced(CaptionSide(model), {"captions": slots}, largest={"captions": vocabulary})
    return Traced(
        WordSide(model),
        {"tokens": torch.ones((2, 3), dtype=torch.int64), "lengths": torch.tensor([3, 2])},
        words=("tokens",),
        lengths=("lengths",),
        largest={"tokens": vocabulary},
    )


class CropFeatures(nn.Module):
    """The network behind image features: crops (B, 3, S, S) uint8 to features (B, D) float32, the
    mean over a crop and its mirror image where the corpus's are."""

    def __init__(self, network: ImageNetwork) -> None:
        super().__init__()
        self.backbone = network.backbone
        self.preprocessing = network.preprocessing

    def forward(self, images: Tensor) -> Tensor:
        views = [self.backbone(view) for view in self.preprocessing.inputs(images[:, None])]
        return torch.stack(views).mean(0)


def write_networks(folder: Path, sides: dict[str, Traced], files: Files, sizes: Any) -> Values:
    """Export both sides, and the image network if the images' side has none. A model whose features
    come from a file gets none.

    Args:
        folder: to write to.
        sides: by name: image, caption.
        files: of the model, by the names that queries use.
        sizes: the architecture of the model.

    Returns:
        For config.json: how an image becomes a crop.

    Raises:
        WorkbenchError: a network's vectors differ from the model's, or the extra onnx is not
            installed.
    """
    networks = {f"{side}_tower": tower for side, tower in sides.items()}
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
            networks["image_network"] = Traced(
                features, {"images": pixels}, largest={"images": 256}
            )
    for name, tower in networks.items():
        difference = write_tower(folder / f"{name}.onnx", tower)
        say(f"{name}.onnx: differs from the model by {difference:.1g} at most")
    if crops is None:
        return {}
    crop: dict[str, object] = {"resize": crops.resize, "squash": crops.squash}
    crop |= {"resampling": crops.resampling.name, "side": crops.crop}
    crop |= {"channels": "BGR" if crops.bgr else "RGB", "views": crops.views}
    return {"crop": crop}


def write_tower(path: Path, tower: Traced) -> float:
    """Export a network and hold it against the model at several batch sizes and lengths.

    Args:
        path: the .onnx file.
        tower: the network with examples of its inputs.

    Returns:
        The largest difference from the model's numbers, as a share of the largest number where that
        is above 1.

    Raises:
        WorkbenchError: the difference is above TOLERANCE, or the extra onnx is not installed.
    """
    try:
        import onnxruntime
        import onnxscript  # noqa: F401 - torch's exporter needs it
    except ModuleNotFoundError as error:
        raise WorkbenchError(
            f"{error.name} is not installed: ONNX files need the extra onnx",
            "pip install --constraint constraints.txt --editable '.[onnx]'",
        ) from None
    with atomic_path(path) as temporary:
        _export(temporary, tower)
        session = onnxruntime.InferenceSession(str(temporary), providers=["CPUExecutionProvider"])
        generator = torch.Generator().manual_seed(0)
        largest = 0.0
        for batch, length in product(BATCHES, LENGTHS if tower.words else LENGTHS[:1]):
            example = tower.example(batch, length, generator)
            with torch.inference_mode():
                ours = tower.module(**example).numpy()
            theirs = session.run(None, {key: value.numpy() for key, value in example.items()})
            scale = max(1.0, float(np.abs(ours).max()))
            largest = max(largest, float(np.abs(ours - theirs[0]).max()) / scale)
        if not largest <= TOLERANCE:
            cause = f"{path.name}: its vectors differ from the model's by {largest:.2g}"
            raise WorkbenchError(
                f"{cause}; allowed is {TOLERANCE:g}",
                "leave --onnx out: the folder's own weights are right",
            )
    return largest


def _export(path: Path, tower: Traced) -> None:
    batch = torch.export.Dim("batch")
    words = torch.export.Dim("words")
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
