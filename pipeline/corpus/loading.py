"""Batches of images decoded by worker processes ahead of their use, whatever becomes of them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset

from pipeline.corpus.images import open_rgb
from pipeline.runtime.errors import WorkbenchError, first_line
from pipeline.runtime.files import sha256_file
from pipeline.runtime.process import require_semaphores
from pipeline.runtime.threads import allowed_processors, processes_beside

Rows = npt.NDArray[np.int64]

SHOWN = 5  # problems of a batch that are spelt out


class ImageFiles:
    """Images of a corpus by row number, each checked to be the one that the corpus was made from.

    Args:
        images: N rows with path and sha256.
        max_pixels: larger images are refused; None for those that the corpus has checked.
    """

    def __init__(self, images: pd.DataFrame, max_pixels: int | None) -> None:
        self.paths: list[str] = images["path"].tolist()
        self.digests: list[str] = images["sha256"].tolist()
        self.max_pixels = max_pixels

    def open(self, row: int) -> Image.Image:
        """Upright RGB; WorkbenchError naming the file when it cannot be read or has changed."""
        path = Path(self.paths[row])
        image = open_rgb(path, self.max_pixels)
        if sha256_file(path) != self.digests[row]:
            raise WorkbenchError(f"{path}: changed since the corpus was prepared")
        return image


def decode_ahead(batches: Dataset[Any], workers: int, section: str) -> Iterator[Any]:
    """The batches in order, decoded ahead of their use.

    Args:
        batches: by number; a batch has `problems`, lines, empty where there are none.
        workers: processes that decode, fewer where torch's threads leave fewer processors; 0: this
            one does.
        section: of params.yaml, whose `workers` the messages name.

    Yields:
        The batches.

    Raises:
        WorkbenchError: the problems of a batch, processes that cannot work together, or a worker
            that died.
    """
    if workers:
        require_semaphores("processes that decode images", f"set {section}.workers to 0")
    loader = DataLoader(
        batches,
        batch_size=None,
        num_workers=processes_beside(torch.get_num_threads(), workers, allowed_processors()),
        collate_fn=_as_it_is,
    )
    try:
        for batch in loader:
            if batch.problems:
                more = len(batch.problems) - SHOWN
                raise WorkbenchError(
                    "; ".join(batch.problems[:SHOWN])
                    + (f" and {more} more in this batch" if more > 0 else ""),
                    "check the files, then run: dvc repro -f prepare_corpus",
                )
            yield batch
    except RuntimeError as error:
        if "DataLoader worker" not in str(error):
            raise
        raise WorkbenchError(
            f"a process that decodes images died: {first_line(error)}",
            f"if memory is short, set {section}.workers to 0 or lower batch_size",
        ) from error


def _as_it_is(batch: Any) -> Any:
    # Arrays travel through a pipe: tensors would take shared memory, scarce in containers.
    return batch
