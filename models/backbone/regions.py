"""Regions of images from a grid: a cut network run over the corpus into a file of regions."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from models.backbone.build import load_body, weighted
from models.backbone.file import ImageNetwork
from models.backbone.grid import GridBackbone, grid_boxes, last_map
from models.backbone.job import extraction_job
from models.backbone.network import BackboneError, cut, weights_digest
from models.backbone.params import provenance
from models.backbone.preprocessing import preprocessing_of
from pipeline.corpus.loading import Rows
from pipeline.regions.file import ImageRegions, described, packed, region_datasets
from pipeline.regions.params import RegionsConfig
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.section import RuntimeConfig
from pipeline.storage.layout import Array
from pipeline.storage.shards import FeatureJob


def grid_job(
    settings: RegionsConfig,
    runtime: RuntimeConfig,
    images: pd.DataFrame,
    detector: Path | None,
    max_pixels: int,
) -> FeatureJob:
    """Regions that are the cells of a network's feature map; detector: for weights `detector`."""
    network = build_grid(settings, detector)
    assert isinstance(network.backbone, GridBackbone)
    attributes = described(
        images,
        settings.model_dump(mode="json") | {"network": network.settings},
        model=settings.network.model,
        layer=",".join(network.settings["layers"]),
        weights=weights_digest(network.backbone),
    )
    cells, sizes = network.backbone.cells(), images[["width", "height"]].to_numpy()
    datasets = region_datasets(len(cells), network.width)
    arguments = network, images, runtime, attributes, datasets, settings.network, settings

    def arrays(rows: Rows, features: npt.NDArray[np.float32]) -> dict[str, Array]:
        boxes = grid_boxes(cells, network.preprocessing, sizes[rows])
        regions = zip(map(tuple, sizes[rows].tolist()), boxes, features, strict=True)
        return packed([ImageRegions(*of_image) for of_image in regions], *features.shape[1:])

    return extraction_job(*arguments, section="regions", max_pixels=max_pixels, arrays=arrays)


def build_grid(settings: RegionsConfig, detector: Path | None) -> ImageNetwork:
    """The network of regions.network: its backbone is a GridBackbone, its width D of a cell."""
    spec = settings.network
    try:
        network = weighted(spec.model, spec.weights)
        crops = preprocessing_of(spec.model, spec.size, "center", spec.resize, spec.normalisation)
        layers = spec.layers or (last_map(network, crops.crop),)
        backbone, _ = cut(network, layers, "mean", crops.crop)
        if spec.weights == "detector":
            if detector is None:
                raise WorkbenchError("regions.network.weights = detector needs --detector")
            load_body(backbone, spec.model, detector, "regions.network")
        grid = GridBackbone(network, backbone, layers, settings.grid, crops.crop)
    except BackboneError as error:
        raise WorkbenchError(f"regions.network: {error}", "change it in params.yaml") from error
    kept = provenance(spec.model_dump(mode="json") | {"layers": list(layers)})
    return ImageNetwork(kept, grid.eval(), grid.width, crops)
