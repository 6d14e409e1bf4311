"""The regions of images that a detector finds: of a corpus, in a file of regions, and of one image
of a query.

`detector_job` makes the file; `regions_of` detects and selects the regions of a batch of pictures,
for the corpus and for `region_finder` alike.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from PIL import Image
from pydantic import ValidationError
from torch import Tensor

from models.backbone.extraction import PictureBatch, describe_machine, fill
from models.backbone.network import weights_digest
from models.detector.selection import RegionOutput, select_regions
from models.detector.weights import load_detector
from pipeline.corpus.images import check_aspect
from pipeline.inputs.regions import Regions, relative_positions
from pipeline.regions.file import ImageRegions, described, packed, region_datasets
from pipeline.regions.params import GridNetworkConfig, RegionsConfig
from pipeline.runtime.errors import OUT_OF_STEP, WorkbenchError
from pipeline.runtime.repeatable import pick_device
from pipeline.runtime.section import RuntimeConfig
from pipeline.storage.features import FeatureFile
from pipeline.storage.layout import Array, checked
from pipeline.storage.shards import FeatureJob

Detect = Callable[[Sequence[Tensor]], Sequence[RegionOutput]]  # of uint8 images (3, H, W)
Select = Callable[[RegionOutput], Tensor]  # to the rows (K,) that are kept, best first

# Keys of the section regions that a file of detected regions leaves out, with any value.
NO_GRID = {"grid": (1, 1), "network": GridNetworkConfig(weights="random")}
UNREAD = {"path": None, "workers": 0} | NO_GRID


def detector_job(
    settings: RegionsConfig,
    runtime: RuntimeConfig,
    images: pd.DataFrame,
    path: Path | None,
    max_pixels: int,
) -> FeatureJob:
    """The file of the regions that a detector finds.

    Args:
        settings: the section `regions`.
        runtime: its device is where the detector runs.
        images: N rows of the corpus's table.
        path: the detector's file, None where it was not given.
        max_pixels: larger images are refused before they are decoded.

    Raises:
        WorkbenchError: the file is missing, damaged or of another kind.
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
    detect = network.to(device).regions
    select_rows = partial(select, settings, network.last_pixel)
    slots = settings.boxes if isinstance(settings.boxes, int) else settings.max

    def compute(batch: PictureBatch) -> dict[str, Array]:
        regions = regions_of(batch.pictures, detect, select_rows, device)
        return packed(regions, slots, network.region_dim)

    fill_file = partial(
        fill,
        images,
        compute=compute,
        batch_size=settings.batch_size,
        workers=settings.workers,
        max_pixels=max_pixels,
        section="regions",
    )
    datasets = region_datasets(slots, network.region_dim)
    machine = describe_machine(device, runtime)
    return FeatureJob(images["image_id"].tolist(), datasets, attributes, machine, fill_file)


def regions_of(
    pictures: Sequence[np.ndarray], detect: Detect, select: Select, device: torch.device
) -> list[ImageRegions]:
    """Detect and select the regions of some pictures.

    Args:
        pictures: B, (H, W, 3) uint8 RGB each, of any sizes.
        detect: from images (3, H, W) uint8 to what the detector says of each.
        select: from that to the rows (K,) of the regions to keep, best first.
        device: where the detector runs.
    """
    tensors = [
        torch.from_numpy(picture).permute(2, 0, 1).contiguous().to(device) for picture in pictures
    ]
    with torch.inference_mode():
        return [
            _labelled_regions(output, select(output), (picture.shape[1], picture.shape[0]))
            for output, picture in zip(detect(tensors), pictures, strict=True)
        ]


def _labelled_regions(output: RegionOutput, rows: Tensor, size: tuple[int, int]) -> ImageRegions:
    """Selected regions with the label that is likeliest for each, background left out."""
    confidences, objects = output.object_scores[rows, 1:].max(1)
    regions = ImageRegions(
        size,
        _array(output.boxes[rows]),
        _array(output.features[rows]),
        objects=_array(objects),
        confidences=_array(confidences),
    )
    likely = output.attribute_scores[rows]
    if not likely.shape[1]:
        return regions
    attribute_confidences, attributes = likely.max(1)
    return replace(
        regions,
        attributes=_array(attributes),
        attribute_confidences=_array(attribute_confidences),
    )


def _array(values: Tensor) -> np.ndarray:
    return (values.float() if values.is_floating_point() else values).cpu().numpy()


def select(settings: RegionsConfig, last_pixel: bool, output: RegionOutput) -> Tensor:
    """The regions of an image that settings keep.

    Args:
        settings: the section `regions`: a number of boxes, or at least `min` and at most `max`
            of those that score `threshold`.
        last_pixel: of the detector, as in models.detector.selection.confidences.
        output: what the detector says of the image.

    Returns:
        (K,) int64 rows of the output, best first.

    Raises:
        WorkbenchError: boxes or scores that are not finite.
    """
    fixed = settings.boxes if isinstance(settings.boxes, int) else None
    return select_regions(
        output,
        minimum=fixed or settings.min,
        maximum=fixed or settings.max,
        threshold=settings.threshold,
        last_pixel=last_pixel,
    )


def region_finder(
    stored: FeatureFile, detector: Path, device: torch.device
) -> Callable[[Image.Image], Regions]:
    """A function that finds the regions of one image as those of the corpus were found.

    Args:
        stored: the corpus's regions.
        detector: the file of the detector that found them.
        device: where the detector runs.

    Returns:
        From an RGB image to its regions, a batch of one on the CPU, rounded as the stored ones;
        WorkbenchError for an image much longer than wide.

    Raises:
        WorkbenchError: another detector, or none, found the stored regions.
    """
    settings = _settings_of(stored)
    network: Any = load_detector(detector)[0]
    if weights_digest(network) != stored.attributes.get("weights_sha256"):
        raise WorkbenchError(f"{stored.path}: not found by the detector of {detector}", OUT_OF_STEP)
    network.to(device).eval()
    select_rows = partial(select, settings, network.last_pixel)
    slots, width = stored.shape()[1:]

    def regions(image: Image.Image) -> Regions:
        check_aspect(image)
        found = regions_of([np.array(image)], network.regions, select_rows, device)
        arrays = packed(found, slots, width)
        boxes = torch.from_numpy(arrays["boxes"])
        sizes = torch.from_numpy(arrays["sizes"]).float()
        # rounded as the corpus's were
        features = checked("query", arrays["features"], stored.dtype(), ["the image"])
        counts = torch.from_numpy(arrays["counts"]).long()
        return Regions(torch.from_numpy(features).float(), relative_positions(boxes, sizes), counts)

    return regions


def _settings_of(stored: FeatureFile) -> RegionsConfig:
    """The section `regions` by which the stored regions were selected."""
    try:
        recorded = dict(json.loads(str(stored.attributes.get("params"))))
        source = recorded["source"]
        if source == "detector":
            return RegionsConfig.whole({**recorded, **UNREAD})
    except (ValueError, TypeError, KeyError, ValidationError):
        raise WorkbenchError(f"{stored.path}: does not say how regions were selected") from None
    whence = "are cells of a grid" if source == "grid" else f"come from another tool ({source})"
    raise WorkbenchError(
        f"{stored.path}: its regions {whence}; there is no detector to find those of an image",
        "search with a text, or set regions.source = detector and run: dvc repro",
    )
