"""The regions of images: detected, selected, and written into a file of regions."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from models.backbone.extraction import fill
from models.backbone.network import weights_digest
from models.detector.selection import RegionOutput, select_regions
from models.detector.weights import load_detector
from pipeline.regions.file import ImageRegions, described, packed, region_datasets
from pipeline.regions.params import RegionsConfig
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.kernels import loaded_kernels
from pipeline.runtime.repeatable import pick_device
from pipeline.runtime.section import RuntimeConfig
from pipeline.storage.shards import FeatureJob

Detect = Callable[[Sequence[Tensor]], Sequence[Any]]  # uint8 (3, H, W) each to RegionOutput each
Select = Callable[[Any], Tensor]  # RegionOutput to (K,) rows of it, best first


def regions_of(
    pictures: Sequence[np.ndarray], detect: Detect, select: Select, device: torch.device
) -> list[ImageRegions]:
    """Detect and select the regions of B pictures (H, W, 3) uint8 RGB; device: the detector's."""
    tensors = [torch.from_numpy(p).permute(2, 0, 1).contiguous().to(device) for p in pictures]
    with torch.inference_mode():
        return [
            _chosen(output, select(output), (picture.shape[1], picture.shape[0]))
            for output, picture in zip(detect(tensors), pictures, strict=True)
        ]


def _chosen(output: RegionOutput, rows: Tensor, size: tuple[int, int]) -> ImageRegions:
    """Selected regions with the label that is likeliest for each, background left out."""
    confidences, objects = output.object_scores[rows, 1:].max(1)
    likely = output.attribute_scores[rows]
    attributes = likely.max(1) if likely.shape[1] else (None, None)
    return ImageRegions(
        size,
        _array(output.boxes[rows]),
        _array(output.features[rows]),
        objects=_array(objects),
        attributes=_array(attributes[1]),
        confidences=_array(confidences),
        attribute_confidences=_array(attributes[0]),
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
    """Regions that the detector of a file finds; path: the file, None where it was not given."""
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
    detect = network.to(device).regions
    chosen = partial(select, settings, network.last_pixel)
    slots = settings.boxes if isinstance(settings.boxes, int) else settings.max
    fill_rows = partial(
        fill,
        images,
        compute=lambda batch: regions_of(batch.pictures, detect, chosen, device),
        arrays=lambda _, regions: packed(regions, slots, network.region_dim),
        batch_size=settings.batch_size,
        workers=settings.workers,
        max_pixels=max_pixels,
        section="regions",
    )
    machine = [str(device), runtime.threads, torch.__version__, *loaded_kernels()]
    datasets = region_datasets(slots, network.region_dim)
    return FeatureJob(images["image_id"].tolist(), datasets, attributes, machine, fill_rows)


def select(settings: RegionsConfig, last_pixel: bool, output: RegionOutput) -> torch.Tensor:
    """Rows (K,) of the regions that settings keep; WorkbenchError when scores are not finite.
    last_pixel: of the detector, as in models.detector.selection.confidences."""
    fixed = settings.boxes if isinstance(settings.boxes, int) else None
    limits = fixed or settings.min, fixed or settings.max
    return select_regions(output, *limits, settings.threshold, last_pixel=last_pixel)
