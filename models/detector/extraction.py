"""The regions of images that a detector finds, written into a file of regions.

`detector_job` makes the file; `regions_of` detects and selects the regions of some pictures, for
the corpus and for the image of a query (models.detector.queries) alike.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from models.backbone.extraction import describe_machine, fill
from models.backbone.network import weights_digest
from models.backbone.preprocessing import PictureBatch
from models.detector.c4 import C4Detector
from models.detector.selection import RegionOutput, select_regions
from models.detector.weights import load_detector
from pipeline.corpus.tables import require_files
from pipeline.features.batches import RowInputs, alone, grouped
from pipeline.features.layout import Array
from pipeline.features.regions.file import ImageRegions, described, pad_regions, region_datasets
from pipeline.features.regions.params import RegionsConfig
from pipeline.features.regions.source import OTHER_REGIONS
from pipeline.features.shards import FeatureJob
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.repeatable import pick_device
from pipeline.runtime.section import RuntimeConfig

Detect = Callable[[Sequence[Tensor]], Sequence[RegionOutput]]  # of uint8 images (3, H, W)
Select = Callable[[RegionOutput], Tensor]  # to the rows (K,) that are kept, best first


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

    Returns:
        A file with a row of regions per image, which is not written yet.

    Raises:
        WorkbenchError: images without files; the file is missing, damaged or of another kind.
    """
    require_files(images, "regions.source: detector", OTHER_REGIONS)
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
        regions = regions_of(batch.pictures, detect, select=select_rows, device=device)
        return pad_regions(regions, slots, network.region_dim)

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
    # its weights do not tell how many regions it proposes
    machine = [*describe_machine(device, runtime), asdict(network.sizes)]
    return FeatureJob(
        ids=images["image_id"].tolist(),
        datasets=datasets,
        attributes=attributes,
        machine=machine,
        fill=fill_file,
        inputs=row_inputs(images, settings.batch_size, one_by_one=isinstance(network, C4Detector)),
    )


def row_inputs(images: pd.DataFrame, batch_size: int, *, one_by_one: bool) -> RowInputs:
    """What the regions of each image depend on.

    Args:
        images: N rows of the corpus's table.
        batch_size: images of a batch.
        one_by_one: whether the images of a batch pass the detector one at a time; else those of
            one size pass together, and their number is part of what a row depends on.

    Returns:
        The digest of every image, and which images may share a batch with it.
    """
    digests = images["sha256"].tolist()
    if one_by_one:
        return alone(digests, batch_size)
    sizes = pd.Series(list(zip(images["width"], images["height"], strict=True)))
    batches = pd.Series(np.arange(len(images)) // batch_size)
    counts = sizes.groupby([batches, sizes]).transform("size")
    companies = list(zip(sizes, counts.tolist(), strict=True))
    return grouped(digests, companies, {company: company[1] for company in companies})


def regions_of(
    pictures: Sequence[np.ndarray], detect: Detect, select: Select, device: torch.device
) -> list[ImageRegions]:
    """Detect and select the regions of some pictures.

    Args:
        pictures: B, (H, W, 3) uint8 RGB each, of any sizes.
        detect: from images (3, H, W) uint8 to what the detector says of each.
        select: from that to the rows (K,) of the regions to keep, best first.
        device: where the detector runs.

    Returns:
        B sets of regions with the names' numbers and confidences, boxes in pixels of the picture.
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
