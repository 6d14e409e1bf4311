"""The loop over images: decoded ahead by workers, through a network, into the feature store.

Batches have fixed boundaries in corpus order, so that a resumed run computes each batch in the same
company as an undisturbed one: float sums may differ in the last bits between batch sizes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import Dataset

from models.backbone.preprocessing import Preprocessing, check_aspect
from pipeline.corpus.loading import ImageFiles, Rows, decode_ahead, whole_batches
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.process import Progress
from pipeline.storage.features import FeatureWriter
from pipeline.storage.layout import Array

Arrays = Callable[[Rows, npt.NDArray[np.float32]], dict[str, Array]]


@dataclass(frozen=True)
class PictureBatch:
    rows: Rows  # (B,) of the images
    pictures: Any  # B arrays of bytes, joined
    problems: tuple[str, ...]  # what went wrong instead


class Pictures(Dataset[PictureBatch]):
    """Reads batch after batch; the problems of a batch are collected. read: from a picture to its
    array of bytes, (H, W, 3) RGB by default; join: of the arrays."""

    def __init__(
        self,
        files: ImageFiles,
        batches: list[Rows],
        read: Callable[[Image.Image], npt.NDArray[np.uint8]] = np.array,
        join: Callable[[list[npt.NDArray[np.uint8]]], Any] = tuple,
    ) -> None:
        self.files, self.batches, self.read, self.join = files, batches, read, join

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, number: int) -> PictureBatch:
        pictures, problems = [], []
        for row in self.batches[number]:
            try:
                pictures.append(self.read(self.files.open(row)))
            except WorkbenchError as error:
                problems.append(error.message)
        joined = None if problems else self.join(pictures)
        return PictureBatch(self.batches[number], joined, tuple(problems))


def fill(
    images: pd.DataFrame,
    writer: FeatureWriter,
    compute: Callable[[PictureBatch], Any],
    arrays: Callable[[Rows, Any], dict[str, Array]],
    *,
    batch_size: int,
    workers: int,
    max_pixels: int | None = None,
    section: str,
    **reading: Any,
) -> None:
    """Compute the missing rows of a feature file.

    images: N rows with path, width, height and sha256, in the order of the writer's ids; arrays:
    from the rows (B,) and what `compute` gives of a batch to the datasets' rows; workers: decoding
    processes; reading: `read` and `join` of Pictures. Neither workers nor interruptions change the
    result. WorkbenchError names images that cannot be read or have changed.
    """
    check_aspect(images)
    todo = whole_batches(writer.missing, batch_size, len(images))
    source = Pictures(ImageFiles(images, max_pixels), todo, **reading)
    done = len(images) - sum(len(rows) for rows in todo)

    with Progress(section.replace("_", " "), len(images), "images", done=done) as progress:
        for batch in decode_ahead(source, workers, section):
            writer.write(batch.rows, **arrays(batch.rows, compute(batch)))
            progress.update(len(batch.rows))


def extract(
    images: pd.DataFrame,
    forward: Callable[[Tensor], Tensor],
    preprocessing: Preprocessing,
    writer: FeatureWriter,
    *,
    batch_size: int,
    workers: int,
    device: torch.device,
    max_pixels: int | None = None,
    arrays: Arrays = lambda _, features: {"features": features},
    section: str = "image_features",
) -> None:
    """Compute the missing rows of `features`, the mean over views; the rest is as in `fill`.
    forward: from (batch_size, 3, S, S) float32 to (batch_size, ...), a row per image."""

    def compute(batch: PictureBatch) -> Tensor:
        crops = torch.from_numpy(batch.pictures).to(device)  # (B, C, 3, S, S)
        if len(crops) < batch_size:  # compiled code takes whole batches only
            crops = torch.cat([crops, crops[:1].expand(batch_size - len(crops), -1, -1, -1, -1)])
        with torch.inference_mode():
            views = (forward(view) for view in preprocessing.inputs(crops))
            total = next(views)
            for features in views:
                total = total + features
            return total[: len(batch.rows)] / preprocessing.views_per_image

    fill(
        images,
        writer,
        compute,
        lambda rows, features: arrays(rows, features.cpu().numpy()),
        batch_size=batch_size,
        workers=workers,
        max_pixels=max_pixels,
        section=section,
        read=preprocessing.crops,
        join=np.stack,
    )
