"""Regions of images from a grid: a cut network run over the corpus into a file of regions."""

from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch

from models.backbone.build import load_body, weighted
from models.backbone.extraction import extract
from models.backbone.file import ImageNetwork, cut_network
from models.backbone.grid import GridBackbone, grid_boxes, last_map
from models.backbone.inference import accelerate
from models.backbone.network import BackboneError, weights_digest
from models.backbone.params import ImageNetworkConfig
from models.backbone.preprocessing import Preprocessing, preprocessing_of
from models.backbone.provenance import provenance
from pipeline.corpus.loading import Rows
from pipeline.regions.file import described, packed_alike, region_datasets
from pipeline.regions.params import RegionsConfig
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.repeatable import pick_device
from pipeline.runtime.section import RuntimeConfig
from pipeline.storage.layout import Array
from pipeline.storage.shards import FeatureJob


def grid_job(
    settings: RegionsConfig,
    runtime: RuntimeConfig,
    images: pd.DataFrame,
    detector: Path | None,
    max_pixels: int,
    seed: int,
) -> FeatureJob:
    """Regions that are the cells of a network's feature map.

    Args:
        settings: the section `regions`.
        runtime: its device is where the network runs.
        images: N rows of the corpus's table.
        detector: the file of the detector, for weights `detector`; None where it was not given.
        max_pixels: larger images are refused before they are decoded.
        seed: of random weights.

    Raises:
        WorkbenchError: a network that cannot be used.
    """
    made, device = build_grid(settings, seed, detector), pick_device(runtime.device)
    assert isinstance(made.backbone, GridBackbone)
    attributes = described(
        images,
        settings.model_dump(mode="json") | {"network": made.settings},
        model=settings.network.model,
        layer=",".join(made.settings["layers"]),
        weights=weights_digest(made.backbone),
    )
    crops, cells = made.preprocessing, made.backbone.cells()
    kind = settings.network.precision, settings.network.compile
    try:
        forward = accelerate(made.backbone, device, *kind, settings.batch_size, crops.crop)
    except BackboneError as error:
        raise WorkbenchError(f"regions.network: {error}", "change it in params.yaml") from error
    fill = partial(
        extract,
        images,
        forward,
        crops,
        batch_size=settings.batch_size,
        workers=settings.workers,
        device=device,
        max_pixels=max_pixels,
        arrays=partial(grid_rows, images[["width", "height"]].to_numpy(), cells, crops),
        section="regions",
    )
    machine = [str(device), runtime.threads, torch.__version__]
    datasets = region_datasets(len(cells), made.width)
    return FeatureJob(images["image_id"].tolist(), datasets, attributes, machine, fill)


def build_grid(settings: RegionsConfig, seed: int, detector: Path | None) -> ImageNetwork:
    """The network of regions.network, whose features are the cells of its maps.

    Args:
        settings: the section regions.
        seed: of random weights.
        detector: the file that weights `detector` are taken from; None where it was not given.

    Returns:
        The network, its backbone a GridBackbone, its width D that of a cell.

    Raises:
        WorkbenchError: networks, layers, weights and grids that cannot be used.
    """
    own = settings.network
    try:
        network = weighted(own.model, own.weights, seed)
        crops = preprocessing_of(own.model, own.size, "center", own.resize, own.normalisation)
        layers = own.layers or (last_map(network, crops.crop),)
        made = cut_network(
            network,
            ImageNetworkConfig(
                **own.model_dump(exclude={"layers"}),
                layers=layers,
                pool="mean",
                views="center",
                batch_size=settings.batch_size,
                workers=settings.workers,
            ),
        )
        if own.weights == "detector":
            if detector is None:
                raise WorkbenchError("regions.network.weights = detector needs --detector")
            load_body(made.backbone, own.model, detector, "regions.network")
        grid = GridBackbone(network, made.backbone, layers, settings.grid, crops.crop)
    except BackboneError as error:
        raise WorkbenchError(f"regions.network: {error}", "change it in params.yaml") from error
    kept = provenance(own.model_dump(mode="json") | {"layers": list(layers)}, seed)
    return ImageNetwork(kept, grid.eval(), grid.width, made.preprocessing)


def grid_rows(
    sizes: npt.NDArray[np.int64],
    cells: npt.NDArray[np.float64],
    preprocessing: Preprocessing,
    rows: Rows,
    features: npt.NDArray[np.float32],
) -> dict[str, Array]:
    """What a file of regions holds of some images.

    Args:
        sizes: (N, 2) widths and heights of all images, pixels.
        cells: (R, 4) of the crop, as shares of it.
        preprocessing: from an image to its crop.
        rows: (B,) numbers of the images.
        features: (B, R, D) of the cells.
    """
    return packed_alike(sizes[rows], grid_boxes(cells, preprocessing, sizes[rows]), features)
