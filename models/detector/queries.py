"""The regions of the image of a query, found as those of the corpus were.

A file of its own: it knows what models read, which making the corpus's regions does not.
"""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from pydantic import ValidationError

from models.backbone.network import weights_digest
from models.detector.extraction import regions_of, select
from models.detector.weights import load_detector
from pipeline.corpus.images import check_aspect
from pipeline.features.data import relative_positions
from pipeline.features.feature_file import FeatureFile
from pipeline.features.layout import cast_finite
from pipeline.features.regions.file import pad_regions
from pipeline.features.regions.params import GridNetworkConfig, RegionsConfig
from pipeline.features.split import Regions
from pipeline.runtime.errors import OUT_OF_STEP, WorkbenchError

# Keys of the section regions that a file of detected regions leaves out, with any value.
NO_GRID = {"grid": (1, 1), "network": GridNetworkConfig(weights="random")}
UNREAD = {"path": None, "workers": 0} | NO_GRID


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
        arrays = pad_regions(found, slots, width)
        boxes = torch.from_numpy(arrays["boxes"])
        sizes = torch.from_numpy(arrays["sizes"]).float()
        # rounded as the corpus's were
        features = cast_finite("query", arrays["features"], stored.dtype(), ["the image"])
        counts = torch.from_numpy(arrays["counts"]).long()
        return Regions(torch.from_numpy(features).float(), relative_positions(boxes, sizes), counts)

    return regions


def _settings_of(stored: FeatureFile) -> RegionsConfig:
    """The section `regions` by which the stored regions were selected."""
    try:
        recorded = dict(json.loads(str(stored.attributes.get("params"))))
        source = recorded["source"]
        if source == "detector":
            return RegionsConfig.validate_complete({**recorded, **UNREAD})
    except (ValueError, TypeError, KeyError, ValidationError):
        raise WorkbenchError(f"{stored.path}: does not say how regions were selected") from None
    whence = "are cells of a grid" if source == "grid" else f"come from another tool ({source})"
    raise WorkbenchError(
        f"{stored.path}: its regions {whence}; there is no detector to find those of an image",
        "search with a text, or set regions.source = detector and run: dvc repro",
    )
