"""Grid features: the cells of a feature map as regions of the image, without any detector.

Jiang et al. 2020, "In Defense of Grid Features for Visual Question Answering". Maps are pooled to a
fixed number of rows and columns by adaptive average pooling; where they do not divide evenly cells
overlap, and so do their boxes. `grid_job` runs such a network over the corpus into a file of
regions.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from torch import Tensor, nn
from torch.nn.functional import adaptive_avg_pool2d

from models.backbone import timm_networks
from models.backbone.extraction import extraction_job
from models.backbone.network import (
    Backbone,
    BackboneError,
    ImageNetwork,
    cut,
    probe,
    weights_digest,
)
from models.backbone.params import provenance
from models.backbone.preprocessing import Preprocessing, preprocessing_of
from models.backbone.weights import classifier_with_weights, load_detector_body
from pipeline.corpus.loading import Rows
from pipeline.corpus.tables import require_files
from pipeline.features.layout import Array
from pipeline.features.regions.file import ImageRegions, described, pad_regions, region_datasets
from pipeline.features.regions.params import RegionsConfig
from pipeline.features.regions.source import OTHER_REGIONS
from pipeline.features.shards import FeatureJob
from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.runtime.section import RuntimeConfig

Boxes = npt.NDArray[np.float32]


def grid_job(
    settings: RegionsConfig,
    runtime: RuntimeConfig,
    images: pd.DataFrame,
    detector: Path | None,
    max_pixels: int,
) -> FeatureJob:
    """The file of regions that are the cells of a network's feature map.

    Args:
        settings: the section `regions`.
        runtime: its device is where the network runs.
        images: N rows of the corpus's table.
        detector: the file that weights `detector` are taken from; None where it was not given.
        max_pixels: larger images are refused before they are decoded.

    Returns:
        A file with a row of regions per image, each the box and the vector of a cell; it is not
        written yet.

    Raises:
        WorkbenchError: images without files; a network, layers, weights or a grid that cannot be
            used.
    """
    require_files(images, "regions.source: grid", OTHER_REGIONS)
    network = build_grid(settings, detector)
    backbone = network.backbone
    assert isinstance(backbone, GridBackbone)
    attributes = described(
        images,
        settings.model_dump(mode="json") | {"network": network.settings},
        model=settings.network.model,
        layer=",".join(network.settings["layers"]),
        weights=weights_digest(backbone),
    )
    cells = backbone.cells()
    sizes = images[["width", "height"]].to_numpy()

    def arrays(rows: Rows, features: npt.NDArray[np.float32]) -> dict[str, Array]:
        boxes = grid_boxes(cells, network.preprocessing, sizes[rows])
        regions = [
            ImageRegions((int(width), int(height)), of_image, vectors)
            for (width, height), of_image, vectors in zip(sizes[rows], boxes, features, strict=True)
        ]
        return pad_regions(regions, len(cells), network.width)

    return extraction_job(
        network,
        images,
        runtime=runtime,
        attributes=attributes,
        datasets=region_datasets(len(cells), network.width),
        precision=settings.network.precision,
        compiled=settings.network.compile,
        batch_size=settings.batch_size,
        workers=settings.workers,
        max_pixels=max_pixels,
        section="regions",
        arrays=arrays,
    )


def build_grid(settings: RegionsConfig, detector: Path | None) -> ImageNetwork:
    """The network of regions.network, whose features are the cells of its maps.

    Args:
        settings: the section `regions`.
        detector: the file that weights `detector` are taken from; None where it was not given.

    Returns:
        The network, its backbone a GridBackbone, its width D that of a cell.

    Raises:
        WorkbenchError: a network, layers, weights or a grid that cannot be used.
    """
    section = settings.network
    try:
        network = classifier_with_weights(section.model, section.weights)
        crops = preprocessing_of(
            section.model,
            section.size,
            views="center",
            resize=section.resize,
            normalisation=section.normalisation,
        )
        layers = section.layers or (last_map(network, crops.crop),)
        backbone, _ = cut(network, layers, pool="mean", size=crops.crop)
        if section.weights == "detector":
            if detector is None:
                raise WorkbenchError("regions.network.weights = detector needs --detector")
            load_detector_body(backbone, section.model, detector, section="regions.network")
        grid = GridBackbone(network, backbone, layers=layers, grid=settings.grid, size=crops.crop)
    except BackboneError as error:
        raise WorkbenchError(f"regions.network: {error}", "change it in params.yaml") from error
    kept = provenance(section.model_dump(mode="json") | {"layers": list(layers)})
    return ImageNetwork(kept, grid.eval(), width=grid.width, preprocessing=crops)


class GridBackbone(Backbone):
    """A cut network whose maps become cells: images (B, 3, S, S) to (B, R, D) float32.

    R is rows x columns, row after row; D is the sum of the layers' channels.

    Args:
        network: the whole network, which names other layers where these give no map.
        backbone: the same, cut.
        layers: where it was cut, as in params.yaml.
        grid: rows and columns.
        size: S, side of the images, pixels.

    Raises:
        BackboneError: layers that give vectors, or maps of fewer rows or columns than the grid.
    """

    def __init__(
        self,
        network: nn.Module,
        backbone: Backbone,
        layers: Sequence[str],
        grid: tuple[int, int],
        size: int,
    ) -> None:
        super().__init__(backbone.graph, backbone.nodes, backbone.pool)
        self.grid = grid
        outputs = probe(self.graph, size)
        maps = [outputs[node] for node in self.nodes]
        for layer, tensor in zip(layers, maps, strict=True):
            if tensor.ndim != 4:
                names = [name for name in _maps(network, size)[0] if "." not in name]
                names = ["map"] if timm_networks.is_timm(network) else names
                raise BackboneError(
                    f"layer {layer!r} gives a vector per image, regions are cells of a map; "
                    f"maps are: {listing(names, 20)}"
                )
            if tensor.shape[2] < grid[0] or tensor.shape[3] < grid[1]:
                raise BackboneError(
                    f"layer {layer!r} gives a map of {tensor.shape[2]} x {tensor.shape[3]}, which "
                    f"has no {grid[0]} x {grid[1]} cells: lower regions.grid or raise the size"
                )
        self.sides = [(tensor.shape[2], tensor.shape[3]) for tensor in maps]
        self.width = sum(tensor.shape[1] for tensor in maps)

    def forward(self, images: Tensor) -> Tensor:
        """(B, 3, S, S) normalised images to (B, R, D) float32."""
        outputs = self.graph(images)
        maps = [adaptive_avg_pool2d(outputs[node].float(), self.grid) for node in self.nodes]
        return torch.cat(maps, dim=1).flatten(2).transpose(1, 2)

    def cells(self) -> npt.NDArray[np.float64]:
        """(R, 4) x1, y1, x2, y2 of the places that are averaged, as shares of the crop; of several
        maps those that any of them averages."""
        rows, columns = self.grid
        tops, bottoms = _bins(rows, [side[0] for side in self.sides])
        lefts, rights = _bins(columns, [side[1] for side in self.sides])
        corners = [
            np.tile(lefts, rows),
            np.repeat(tops, columns),
            np.tile(rights, rows),
            np.repeat(bottoms, columns),
        ]
        return np.stack(corners, 1)


def grid_boxes(
    cells: npt.NDArray[np.float64], preprocessing: Preprocessing, sizes: npt.NDArray[np.int64]
) -> Boxes:
    """Cells as boxes of the images that they are of, whatever was resized and cut off.

    Args:
        cells: (R, 4) x1, y1, x2, y2 as shares of a crop.
        preprocessing: from an image to its crop.
        sizes: (B, 2) widths and heights of the images, pixels.

    Returns:
        (B, R, 4) x1, y1, x2, y2 in pixels of each image.
    """
    seen = np.array([preprocessing.seen(int(width), int(height)) for width, height in sizes])
    corners = seen[:, None, :2]
    extents = seen[:, None, 2:] - corners
    boxes = np.tile(corners, 2) + cells * np.tile(extents, 2)
    # a crop begins at a whole pixel of the resized image: rounding may leave the image by less
    return np.clip(boxes, 0, np.tile(sizes[:, None], 2)).astype(np.float32)


def last_map(network: nn.Module, size: int) -> str:
    """The layer of the last feature map.

    Args:
        network: a whole one.
        size: side of the images, pixels.

    Returns:
        The name of the module that gives it, or `map` for a network of timm.

    Raises:
        BackboneError: it has none that cells can be taken from, as torchvision's vision
            transformers.
    """
    if timm_networks.is_timm(network):
        return "map"
    maps, tokens_follow = _maps(network, size)
    if not maps or tokens_follow:
        raise BackboneError(
            f"{type(network).__name__} has no last feature map to take regions from; name layers, "
            "or take a convolutional network or one of timm's (timm/...)"
        )
    return maps[-1]


def _maps(network: nn.Module, size: int) -> tuple[list[str], bool]:
    """Modules that give maps of more than one place, in the order in which they end, and whether
    tokens (B, T, C) come after the last. Adaptive poolings resize the map before them: left out."""
    maps: list[str] = []
    kinds: list[int] = []
    hooks = []
    for name, module in network.named_modules():
        if name and not isinstance(module, nn.AdaptiveAvgPool2d):

            def keep(module: nn.Module, inputs: object, output: object, name: str = name) -> None:
                if not isinstance(output, Tensor):
                    return
                kinds.append(output.ndim)
                if output.ndim == 4 and output.shape[2] * output.shape[3] > 1:
                    maps.append(name)
                    kinds.clear()

            hooks.append(module.register_forward_hook(keep))
    try:
        probe(network, size)
    finally:
        for hook in hooks:
            hook.remove()
    return list(dict.fromkeys(maps)), 3 in kinds


def _bins(cells: int, sides: Sequence[int]) -> tuple[npt.NDArray[np.float64], ...]:
    """Where the cells of adaptive pooling begin and end, as shares of a side: (cells,) each."""
    places = np.arange(cells)
    begins = [np.floor(places * side / cells) / side for side in sides]
    ends = [np.ceil((places + 1) * side / cells) / side for side in sides]
    return np.min(begins, axis=0), np.max(ends, axis=0)
