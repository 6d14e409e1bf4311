"""The loop over images that fills a file of regions: decoded ahead, detected, selected, written.

Batches have fixed boundaries in corpus order, so that a resumed run gives each batch the company it
has in an undisturbed one. Detector and selection come as arguments: pipeline imports no model.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from torch import Tensor
from torch.utils.data import Dataset

from pipeline.corpus import images_digest
from pipeline.decoding import ImageFiles, Rows, decode_ahead, whole_batches
from pipeline.detector_protocol import RegionOutput
from pipeline.errors import WorkbenchError
from pipeline.feature_store import FeatureWriter
from pipeline.preprocessing import check_aspect
from pipeline.region_file import ImageRegions, packed
from pipeline.runtime import Progress

Detect = Callable[[Sequence[Tensor]], Sequence[Any]]  # uint8 (3, H, W) each to RegionOutput each
Select = Callable[[Any], Tensor]  # RegionOutput to (K,) rows of it, best first


@dataclass(frozen=True)
class Opened:
    """One batch as it leaves a worker: pictures (H, W, 3) bytes for `rows`, or what went wrong."""

    rows: Rows
    pictures: tuple[npt.NDArray[np.uint8], ...]
    problems: tuple[str, ...]


class Pictures(Dataset[Opened]):
    """Reads batch after batch; problems are collected, so that all of a batch show."""

    def __init__(self, files: ImageFiles, batches: list[Rows]) -> None:
        self.files, self.batches = files, batches

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, number: int) -> Opened:
        pictures, problems = [], []
        for row in self.batches[number]:
            try:
                pictures.append(np.array(self.files.open(row)))
            except WorkbenchError as error:
                problems.append(error.message)
        return Opened(self.batches[number], tuple(pictures), tuple(problems))


def extract_regions(
    images: pd.DataFrame,
    detect: Detect,
    select: Select,
    writer: FeatureWriter,
    *,
    batch_size: int,
    workers: int,
    device: torch.device,
    max_pixels: int | None = None,
) -> None:
    """Compute the missing rows of a file of regions and write them.

    images: N rows with path, width, height and sha256; writer: datasets of region_datasets, ids in
    the order of `images`; workers: decoding processes, 0 for none. Neither workers nor
    interruptions change the result.
    Raises WorkbenchError naming images that cannot be read, or differ from the corpus.
    """
    check_aspect(images)  # detectors scale the shorter side up: a ribbon outgrows the memory
    slots, width = writer.datasets["features"][0]
    todo = whole_batches(writer.missing, batch_size, len(images))
    source = Pictures(ImageFiles(images, max_pixels), todo)
    done = len(images) - sum(len(rows) for rows in todo)
    with (
        ThreadPoolExecutor(1) as pool,
        Progress("region features", len(images), "images", done=done) as progress,
    ):
        written: Future[None] | None = None
        for batch in decode_ahead(source, workers, "regions"):
            found = regions_of(batch.pictures, detect, select, device)
            if written is not None:
                written.result()
            written = pool.submit(writer.write, batch.rows, **packed(found, slots, width))
            progress.update(len(batch.rows))
        if written is not None:
            written.result()


def regions_of(
    pictures: Sequence[npt.NDArray[np.uint8]],
    detect: Detect,
    select: Select,
    device: torch.device,
) -> list[ImageRegions]:
    """Detect and select the regions of B pictures (H, W, 3)."""
    tensors = [torch.from_numpy(p).permute(2, 0, 1).contiguous().to(device) for p in pictures]
    with torch.inference_mode():
        return [
            _chosen(output, select(output), (picture.shape[1], picture.shape[0]))
            for output, picture in zip(detect(tensors), pictures, strict=True)
        ]


def described(
    images: pd.DataFrame,
    settings: Mapping[str, Any],
    *,
    model: str,
    layer: str,
    weights: str,
    objects: Sequence[str] = (),
    attributes: Sequence[str] = (),
    has_boxes: bool = True,
) -> dict[str, str | int | float]:
    """What a file of regions says of itself.

    settings: the section regions; what changes no value (workers, where files lie) is left out.
    weights: digest of the detector, or of the files that were imported.
    """
    used = {name: value for name, value in settings.items() if name not in ("workers", "path")}
    return {
        "model": model,
        "layer": layer,
        "weights_sha256": weights,
        "params": json.dumps(used),
        "corpus_sha256": images_digest(images),
        "object_names": json.dumps(list(objects), ensure_ascii=False),
        "attribute_names": json.dumps(list(attributes), ensure_ascii=False),
        "has_boxes": int(has_boxes),
    }


def _chosen(output: RegionOutput, rows: Tensor, size: tuple[int, int]) -> ImageRegions:
    """Selected regions with the label that is likeliest for each, background left out."""
    scores, objects = output.object_scores[rows, 1:].max(1)
    likely = output.attribute_scores[rows]
    attributes = likely.max(1) if likely.shape[1] else (None, None)
    return ImageRegions(
        size,
        _array(output.boxes[rows]),
        _array(output.features[rows]),
        _array(objects),
        _array(attributes[1]),
        _array(scores),
        _array(attributes[0]),
    )


def _array(values: Tensor | None) -> Any:
    if values is None:
        return None
    return (values.float() if values.is_floating_point() else values).cpu().numpy()
