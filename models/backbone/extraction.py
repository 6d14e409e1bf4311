"""The loop over images: decoded ahead by workers, through the network, into the feature store.

Batches have fixed boundaries in corpus order, so that a resumed run computes each batch in the same
company as an undisturbed one: float sums may differ in the last bits between batch sizes.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from torch import Tensor
from torch.utils.data import Dataset

from models.backbone.preprocessing import Preprocessing, check_aspect
from pipeline.corpus.loading import ImageFiles, Rows, decode_ahead, whole_batches
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.process import Progress
from pipeline.storage.features import FeatureWriter
from pipeline.storage.layout import Array


@dataclass(frozen=True)
class Decoded:
    """One batch as it leaves a worker.

    Attributes:
        rows: (B,) numbers of its images.
        crops: (B, C, 3, S, S) bytes, C views of each image.
        problems: what went wrong with the images, or nothing.
    """

    rows: Rows
    crops: npt.NDArray[np.uint8]
    problems: tuple[str, ...]


Arrays = Callable[[Rows, npt.NDArray[np.float32]], dict[str, Array]]


def features_alone(rows: Rows, features: npt.NDArray[np.float32]) -> dict[str, Array]:
    """The one dataset of a file of image features.

    Args:
        rows: (B,) numbers of images.
        features: (B, D) of them.
    """
    return {"features": features}


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
    arrays: Arrays = features_alone,
    section: str = "image_features",
) -> None:
    """Compute the missing rows of `features`, the mean over views, and write them.

    Neither workers nor interruptions change the result.

    Args:
        images: N rows with path, width, height and sha256.
        forward: (batch_size, 3, S, S) float32 to (batch_size, ...), a row per image.
        preprocessing: from a picture to its views.
        writer: its ids in the order of `images`.
        batch_size: images at a time.
        workers: decoding processes, 0 for none.
        device: where `forward` runs.
        max_pixels: larger images are refused before decoding, None for no limit.
        arrays: from the numbers of some images and their features to the datasets' rows.
        section: of params.yaml, for messages.

    Raises:
        WorkbenchError: images that cannot be read, or differ from the corpus.
    """
    check_aspect(images)
    todo = whole_batches(writer.missing, batch_size, len(images))
    source = CropBatches(ImageFiles(images, max_pixels), todo, preprocessing)
    done = len(images) - sum(len(rows) for rows in todo)
    with (
        ThreadPoolExecutor(1) as pool,
        Progress(section.replace("_", " "), len(images), "images", done=done) as progress,
    ):
        written: Future[None] | None = None
        for batch in decode_ahead(source, workers, section):
            features = _features(batch, forward, preprocessing, batch_size, device)
            if written is not None:
                written.result()
            written = pool.submit(_store, writer, batch.rows, features, arrays)
            progress.update(len(batch.rows))
        if written is not None:
            written.result()


class CropBatches(Dataset[Decoded]):
    """Reads and crops batch after batch; problems are collected, so that all of a batch show.

    Args:
        files: the images.
        batches: row numbers of each batch.
        preprocessing: from a picture to its views.
    """

    def __init__(
        self, files: ImageFiles, batches: list[Rows], preprocessing: Preprocessing
    ) -> None:
        self.files, self.batches, self.preprocessing = files, batches, preprocessing

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, number: int) -> Decoded:
        rows = self.batches[number]
        side, crops = self.preprocessing.crop, self.preprocessing.crops_per_image
        pixels = np.empty((len(rows), crops, 3, side, side), dtype=np.uint8)
        problems = []
        for place, row in enumerate(rows):
            try:
                pixels[place] = self.preprocessing.crops(self.files.open(row))
            except WorkbenchError as error:
                problems.append(error.message)
        return Decoded(rows, pixels, tuple(problems))


def _features(
    batch: Decoded,
    forward: Callable[[Tensor], Tensor],
    preprocessing: Preprocessing,
    batch_size: int,
    device: torch.device,
) -> Tensor:
    """(B, ...) float32 mean over the views; a short batch is filled up for compiled code."""
    crops = torch.from_numpy(batch.crops).to(device)
    if len(crops) < batch_size:
        crops = torch.cat([crops, crops[:1].expand(batch_size - len(crops), -1, -1, -1, -1)])
    with torch.inference_mode():
        views = (forward(view) for view in preprocessing.inputs(crops))
        total = next(views)
        for features in views:
            total = total + features
        return total[: len(batch.rows)] / preprocessing.views_per_image


def _store(writer: FeatureWriter, rows: Rows, features: Tensor, arrays: Arrays) -> None:
    writer.write(rows, **arrays(rows, features.cpu().numpy()))
