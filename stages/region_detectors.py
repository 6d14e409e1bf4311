"""Regions by a detector, as the job that fills a file of regions."""

from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from models.backbones import weights_digest
from models.region_selection import RegionError, RegionOutput, select_regions
from pipeline.errors import WorkbenchError
from pipeline.region_extraction import described, extract_regions
from pipeline.region_file import RegionJob
from pipeline.runtime import pick_device
from pipeline.sections import Regions, Runtime
from stages.detectors import load_detector


def detector_job(
    settings: Regions, runtime: Runtime, images: pd.DataFrame, path: Path | None, max_pixels: int
) -> RegionJob:
    """Regions that the detector of a file finds; WorkbenchError when there is no such file.

    max_pixels: larger images are refused before they are decoded.
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
    machine = [str(device), runtime.threads, torch.__version__]
    return RegionJob(slots, network.region_dim, attributes, machine, fill)


def select(settings: Regions, output: RegionOutput) -> torch.Tensor:
    """Rows (K,) of the regions that settings keep; WorkbenchError when scores are not finite."""
    fixed = settings.boxes if isinstance(settings.boxes, int) else None
    try:
        return select_regions(
            output, fixed or settings.min, fixed or settings.max, settings.threshold
        )
    except RegionError as error:
        raise WorkbenchError(f"regions: {error}", "check the detector and regions.min") from error
