"""Images as pixels for a network that is trained on them: crops of decoded and resized files.

A decoded image is kept in memory within a budget, as bytes of its resized size, so that later
epochs do not wait for decoding. What is kept changes how fast rows come, never their values.
"""

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from PIL import Image

from models.backbone.preprocessing import Preprocessing, check_aspect
from pipeline.corpus.loading import ImageFiles
from pipeline.inputs.sources import MEMORY_BUDGET
from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.training.processes import share

Pixels = npt.NDArray[np.uint8]


def shown(preprocessing: Preprocessing, image: Image.Image) -> Pixels:
    """What a network is shown of an RGB image outside training: its centre (3, S, S) uint8, or with
    other views (C, 3, S, S), whose features are averaged with their mirror images'."""
    crops = preprocessing.crops(image)
    return crops[0] if preprocessing.views == "center" else crops


class PixelRows:
    """Crops of N images: rows (B,) to uint8 (B, 3, S, S), their channels as the network's.

    Called, it cuts as feature extraction does (`shown`); with a generator as for training. flip:
    training may mirror a crop (wrong where captions say left and right); workers: decoding threads,
    0 for none; budget: bytes of resized images that are kept.
    """

    def __init__(
        self,
        images: pd.DataFrame,
        image_ids: Sequence[str],
        preprocessing: Preprocessing,
        flip: bool = True,
        workers: int = 0,
        budget: int = MEMORY_BUDGET,
        max_pixels: int | None = None,
    ) -> None:
        rows = pd.Index(images["image_id"]).get_indexer(pd.Index(image_ids))
        lost = [name for name, row in zip(image_ids, rows, strict=True) if row < 0]
        if lost:
            raise WorkbenchError(f"{len(lost)} images are not in the table: {listing(lost)}")
        table = images.iloc[rows]
        check_aspect(table)
        self.files = ImageFiles(table, max_pixels)
        self.preprocessing, self.flip = preprocessing, flip
        self.left = budget
        self.kept: dict[int, Pixels] = {}
        self.lock = threading.Lock()
        self.pool = ThreadPoolExecutor(workers) if workers else None

    def __call__(
        self, rows: np.ndarray, generator: np.random.Generator | None = None
    ) -> torch.Tensor:
        if generator is not None:
            return self.augmented(rows, generator)
        images = map(Image.fromarray, self.resized(rows))
        return torch.from_numpy(np.stack([shown(self.preprocessing, image) for image in images]))

    def augmented(self, rows: np.ndarray, generator: np.random.Generator) -> torch.Tensor:
        """Random crops, mirrored or not, each equally likely; the generator alone decides."""
        side = self.preprocessing.crop
        corners, mirrored = generator.random((len(rows), 2)), generator.random(len(rows)) < 0.5
        crops = np.empty((len(rows), 3, side, side), np.uint8)
        span = share(len(rows))  # the rest is another process's, and stays as it is
        for index, image in enumerate(self.resized(rows[span]), span.start):
            room = np.array(image.shape[:2]) - side + 1
            top, left = (corners[index] * room).astype(int)
            cut = image[top : top + side, left : left + side]
            cut = cut[:, ::-1] if self.flip and mirrored[index] else cut
            crops[index] = self.preprocessing.planes(cut)
        return torch.from_numpy(crops)

    def resized(self, rows: np.ndarray) -> list[Pixels]:
        """B images (H, W, 3) uint8 RGB, resized; WorkbenchError names all that cannot be had."""
        run = map if self.pool is None else self.pool.map
        results = list(run(self._resized, rows.tolist()))
        problems = [image.message for image in results if isinstance(image, WorkbenchError)]
        if problems:
            raise WorkbenchError(
                listing(problems, 5), "check the files, then run: dvc repro -f prepare_corpus"
            )
        return [image for image in results if not isinstance(image, WorkbenchError)]

    def _resized(self, row: int) -> Pixels | WorkbenchError:
        """One image from memory or from its file, or what is wrong with it."""
        image = self.kept.get(row)
        if image is not None:
            return image
        try:
            image = np.array(self.preprocessing.resized(self.files.open(row)))
        except WorkbenchError as error:  # returned, so that all of a batch can be told together
            return error
        with self.lock:
            if row not in self.kept and image.nbytes <= self.left:
                self.left -= image.nbytes
                self.kept[row] = image
        return image
