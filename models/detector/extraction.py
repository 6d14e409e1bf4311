"""The loop over images that fills a file of regions: decoded ahead, detected, selected, written.

Batches have fixed boundaries in corpus order, so that a resumed run gives each batch the company it
has in an undisturbed one. Detector and selection come as arguments: pipeline imports no model.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from torch import Tensor
from torch.utils.data import Dataset

from models.backbone.network import weights_digest
from models.backbone.preprocessing import check_aspect
from models.detector.load import load_detector
from models.detector.selection import RegionError, RegionOutput, select_regions
from pipeline.corpus.loading import ImageFiles, Rows, decode_ahead, whole_batches
from pipeline.regions.file import ImageRegions, described, packed, region_datasets
from pipeline.regions.params import RegionsConfig
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.kernels import kernels
from pipeline.runtime.process import Progress
from pipeline.runtime.repeatable import pick_device
from pipeline.runtime.section import RuntimeConfig
from pipeline.storage.features import FeatureWriter
from pipeline.storage.shards import FeatureJob

Detect = Callable[[Sequence[Tensor]], Sequence[Any]]  # uint8 (3, H, W) each to RegionOutput each
Select = Callable[[Any], Tensor]  # RegionOutput to (K,) rows of it, best first


@dataclass(frozen=True)
class PictureBatch:
    """One batch as it leaves a worker.

    Attributes:
        rows: of the images.
        pictures: (H, W, 3) bytes for each.
        problems: what went wrong instead.
    """

    rows: Rows
    pictures: tuple[npt.NDArray[np.uint8], ...]
    problems: tuple[str, ...]


class Pictures(Dataset[PictureBatch]):
    """Reads batch after batch; problems are collected, so that all of a batch show."""

    def __init__(self, files: ImageFiles, batches: list[Rows]) -> None:
        self.files, self.batches = files, batches

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, number: int) -> PictureBatch:
        pictures, problems = [], []
        for row in self.batches[number]:
            try:
                pictures.append(np.array(self.files.open(row)))
            except WorkbenchError as error:
                problems.append(error.message)
        return PictureBatch(self.batches[number], tuple(pictures), tuple(problems))


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

    Neither workers nor interruptions change the result.

    Args:
        images: N rows with path, width, height and sha256.
        detect: from a batch of pictures (3, H, W) uint8 on the device to their proposals.
        select: from the proposals of an image to the numbers of those to keep.
        writer: datasets of region_datasets, ids in the order of `images`.
        batch_size: images per batch.
        workers: decoding processes, 0 for none.
        device: where the detector runs.
        max_pixels: larger images are refused before they are decoded.

    Raises:
        WorkbenchError: naming images that cannot be read, or differ from the corpus.
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
    """Detect and select the regions of B pictures.

    Args:
        pictures: B, (H, W, 3) uint8 RGB.
        detect: from the pictures (3, H, W) uint8 on the device to their proposals.
        select: from the proposals of an image to the numbers of those to keep.
        device: where the detector is.
    """
    tensors = [torch.from_numpy(p).permute(2, 0, 1).contiguous().to(device) for p in pictures]
    with torch.inference_mode():
        return [
            _chosen(output, select(output), (picture.shape[1], picture.shape[0]))
            for output, picture in zip(detect(tensors), pictures, strict=True)
        ]


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


def detector_job(
    settings: RegionsConfig,
    runtime: RuntimeConfig,
    images: pd.DataFrame,
    path: Path | None,
    max_pixels: int,
) -> FeatureJob:
    """Regions that the detector of a file finds.

    Args:
        settings: the section `regions`.
        runtime: its device is where the detector runs.
        images: N rows of the corpus's table.
        path: the file of the detector, None where it was not given.
        max_pixels: larger images are refused before they are decoded.

    Raises:
        WorkbenchError: there is no such file.
    """
    if path is None:
        raise WorkbenchError("regions.source = detector needs the option --detector")
    network: Any = load_detector(path)[0]
    device = pick_device(runtime.device)
    attributes = described(
        images,
        settings.model_dump(),
        model=network.architecture,
        # An FPN detector's regions are no bottom-up features; the name says which they are.
        layer="res5" if network.architecture.startswith("c4") else "box_head",
        weights=weights_digest(network),
        objects=network.object_names,
        attributes=network.attribute_names,
    )
    fill = partial(
        extract_regions,
        images,
        network.to(device).regions,
        partial(select, settings),
        batch_size=settings.batch_size,
        workers=settings.workers,
        device=device,
        max_pixels=max_pixels,
    )
    slots = settings.boxes if isinstance(settings.boxes, int) else settings.max
    machine = [str(device), runtime.threads, torch.__version__, *kernels()]
    datasets = region_datasets(slots, network.region_dim)
    return FeatureJob(images["image_id"].tolist(), datasets, attributes, machine, fill)


def select(settings: RegionsConfig, output: RegionOutput) -> torch.Tensor:
    """Rows (K,) of the regions that settings keep; WorkbenchError when scores are not finite."""
    fixed = settings.boxes if isinstance(settings.boxes, int) else None
    try:
        return select_regions(
            output, fixed or settings.min, fixed or settings.max, settings.threshold
        )
    except RegionError as error:
        raise WorkbenchError(f"regions: {error}", "check the detector and regions.min") from error
