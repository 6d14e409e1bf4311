"""The regions of an image file, detected and selected as those of the corpus were."""

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
from pipeline.inputs.regions import relative_positions
from pipeline.inputs.split import Regions
from pipeline.regions.file import packed
from pipeline.regions.params import GridNetworkConfig, RegionsConfig
from pipeline.runtime.errors import OUT_OF_STEP, WorkbenchError
from pipeline.storage.features import FeatureFile
from pipeline.storage.layout import checked

# Keys of the section regions that a file of detected regions leaves out.
NO_GRID = {"grid": (1, 1), "network": GridNetworkConfig(weights="random")}
UNREAD = {"path": None, "workers": 0} | NO_GRID


def region_finder(
    stored: FeatureFile, detector: Path, device: torch.device
) -> Callable[[Image.Image], Regions]:
    """A function from an RGB image to its regions, on the CPU, by the detector that found the
    stored ones."""
    settings = _settings(stored)
    network: Any = load_detector(detector)[0]
    if weights_digest(network) != stored.attributes.get("weights_sha256"):
        raise WorkbenchError(f"{stored.path}: not found by the detector of {detector}", OUT_OF_STEP)
    network.to(device).eval()
    detect = network.regions
    chosen = partial(select, settings, network.last_pixel)

    def regions(image: Image.Image) -> Regions:
        check_aspect(image)
        selected = regions_of([np.array(image)], detect, chosen, device)
        arrays = packed(selected, *stored.shape()[1:])
        boxes, sizes = torch.from_numpy(arrays["boxes"]), torch.from_numpy(arrays["sizes"]).float()
        # rounded as the corpus's were
        features = checked("query", arrays["features"], stored.dtype(), ["the image"])
        counts = torch.from_numpy(arrays["counts"]).long()
        return Regions(torch.from_numpy(features).float(), relative_positions(boxes, sizes), counts)

    return regions


def _settings(stored: FeatureFile) -> RegionsConfig:
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
