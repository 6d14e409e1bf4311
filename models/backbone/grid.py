"""Grid features: the cells of a feature map as regions of the image, without any detector.

Jiang et al. 2020, "In Defense of Grid Features for Visual Question Answering". Maps are pooled to a
fixed number of rows and columns by adaptive average pooling; where they do not divide evenly cells
overlap, and so do their boxes.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.functional import adaptive_avg_pool2d

from models.backbone import timm_networks
from models.backbone.network import Backbone, BackboneError, probe
from models.backbone.preprocessing import Preprocessing
from pipeline.runtime.errors import listing

Boxes = npt.NDArray[np.float32]


class GridBackbone(Backbone):
    """A cut network whose maps become R cells: images (B, 3, S, S) to (B, R, D) float32, row after
    row. D is the sum of the layers' channels. network: the whole one, which names other layers
    where these give no map."""

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
    """Cells (R, 4), shares of a crop, as boxes (B, R, 4) x1, y1, x2, y2 in pixels of B images.
    sizes: (B, 2) widths and heights of the images, pixels."""
    seen = np.array([preprocessing.seen(int(width), int(height)) for width, height in sizes])
    corners, extents = seen[:, None, :2], seen[:, None, 2:] - seen[:, None, :2]
    boxes = np.tile(corners, 2) + cells * np.tile(extents, 2)
    # a crop begins at a whole pixel of the resized image: rounding may leave the image by less
    return np.clip(boxes, 0, np.tile(sizes[:, None], 2)).astype(np.float32)


def last_map(network: nn.Module, size: int) -> str:
    """The layer of the last feature map; BackboneError for a network that has none."""
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
