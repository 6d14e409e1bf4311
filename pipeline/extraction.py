"""The loop over images: decoded ahead by workers, through the network, into the feature store.

Batches have fixed boundaries in corpus order, so that a resumed run computes each batch in the same
company as an undisturbed one: float sums may differ in the last bits between batch sizes.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from pipeline.errors import WorkbenchError, listing
from pipeline.feature_store import FeatureWriter
from pipeline.images import open_rgb
from pipeline.preprocessing import MAX_ASPECT, Preprocessing
from pipeline.runtime import Progress

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Decoded:
    """One batch as it leaves a worker: (B, C, 3, S, S) bytes for `rows`, or what went wrong."""

    rows: Rows
    crops: npt.NDArray[np.uint8]
    problems: tuple[str, ...]


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
) -> None:
    """Compute the missing rows of `features` (N, D), the mean over views, and write them.

    images: N rows with path, width, height and sha256; forward: (batch_size, 3, S, S) float32 to
    (batch_size, D); writer: its ids in the order of `images`; workers: decoding processes, 0 for
    none. Neither workers nor interruptions change the result.
    Raises WorkbenchError naming images that cannot be read, or differ from the corpus.
    """
    _check_aspect(images)
    missing = writer.missing
    batches = np.unique(missing // batch_size)
    # A batch that is partly there is computed again as a whole, in its own company.
    todo = [_batch_rows(batch, batch_size, len(images)) for batch in batches]
    source = Batches(images, todo, preprocessing, max_pixels)
    done = len(images) - sum(len(rows) for rows in todo)
    with (
        ThreadPoolExecutor(1) as pool,
        Progress("image features", len(images), "images", done=done) as progress,
    ):
        written: Future[None] | None = None
        for batch in decode_ahead(source, workers):
            features = _features(batch, forward, preprocessing, batch_size, device)
            if written is not None:
                written.result()
            written = pool.submit(_store, writer, batch.rows, features)
            progress.update(len(batch.rows))
        if written is not None:
            written.result()


def provenance(settings: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """What of the section image_features the values depend on, for the file's attributes.

    The number of workers changes no value; the path of a weights file belongs to one machine, and
    its content is recorded by digest. The seed counts where the weights are random.
    """
    kept = {name: value for name, value in settings.items() if name != "workers"}
    if settings["weights"] not in ("random", "imagenet"):
        kept["weights"] = "file"
    return kept | ({"seed": seed} if settings["weights"] == "random" else {})


class Batches(Dataset[Decoded]):
    """Reads and crops batch after batch; problems are collected, so that all of a batch show."""

    def __init__(
        self,
        images: pd.DataFrame,
        batches: list[Rows],
        preprocessing: Preprocessing,
        max_pixels: int | None,
    ) -> None:
        self.paths = images["path"].tolist()
        self.digests = images["sha256"].tolist()
        self.batches, self.preprocessing, self.max_pixels = batches, preprocessing, max_pixels

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, number: int) -> Decoded:
        rows = self.batches[number]
        side, crops = self.preprocessing.crop, self.preprocessing.crops_per_image
        pixels = np.empty((len(rows), crops, 3, side, side), dtype=np.uint8)
        problems = []
        for place, row in enumerate(rows):
            try:
                pixels[place] = self._crops(row)
            except WorkbenchError as error:
                problems.append(error.message)
        return Decoded(rows, pixels, tuple(problems))

    def _crops(self, row: int) -> npt.NDArray[np.uint8]:
        path = self.paths[row]
        image = open_rgb(path, self.max_pixels)
        with open(path, "rb") as handle:
            digest = hashlib.file_digest(handle, "sha256").hexdigest()
        if digest != self.digests[row]:
            raise WorkbenchError(f"{path}: changed since the corpus was prepared")
        return self.preprocessing.crops(image)


def decode_ahead(batches: Batches, workers: int) -> Iterator[Decoded]:
    """The batches in order, decoded by worker processes ahead of their use.

    Raises WorkbenchError with the problems of the first batch that has any.
    """
    loader = DataLoader(batches, batch_size=None, num_workers=workers, collate_fn=_as_it_is)
    try:
        for batch in loader:
            if batch.problems:
                raise WorkbenchError(
                    "; ".join(batch.problems[:5]) + _left_out(len(batch.problems) - 5),
                    "check the files, then run: dvc repro -f prepare_corpus",
                )
            yield batch
    except RuntimeError as error:
        if "DataLoader worker" not in str(error):
            raise
        raise WorkbenchError(
            f"a process that decodes images died: {str(error).splitlines()[0]}",
            "if memory is short, set image_features.workers to 0 or lower batch_size",
        ) from error


def _features(
    batch: Decoded,
    forward: Callable[[Tensor], Tensor],
    preprocessing: Preprocessing,
    batch_size: int,
    device: torch.device,
) -> Tensor:
    """(B, D) float32 mean over the views; a short batch is filled up, as compiled code expects."""
    crops = torch.from_numpy(batch.crops).to(device)
    if len(crops) < batch_size:
        crops = torch.cat([crops, crops[:1].expand(batch_size - len(crops), -1, -1, -1, -1)])
    with torch.inference_mode():
        views = (forward(view) for view in preprocessing.inputs(crops))
        total = next(views)
        for features in views:
            total = total + features
        return total[: len(batch.rows)] / preprocessing.views_per_image


def _store(writer: FeatureWriter, rows: Rows, features: Tensor) -> None:
    writer.write(rows, features=features.cpu().numpy())


def _batch_rows(batch: int, batch_size: int, count: int) -> Rows:
    return np.arange(batch * batch_size, min((batch + 1) * batch_size, count))


def _check_aspect(images: pd.DataFrame) -> None:
    longer = images[["width", "height"]].max(axis=1)
    extreme = longer > MAX_ASPECT * images[["width", "height"]].min(axis=1)
    if extreme.any():
        raise WorkbenchError(
            f"images more than {MAX_ASPECT} times as long as wide: "
            f"{listing(images.loc[extreme, 'path'], 5)}",
            "crop them or remove them from the corpus",
        )


def _as_it_is(batch: Any) -> Any:
    # Arrays travel through a pipe: tensors would take shared memory, scarce in containers.
    return batch


def _left_out(count: int) -> str:
    return f" and {count} more in this batch" if count > 0 else ""
