"""Section of params.yaml: which regions of an image are kept."""

import os
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field
from pydantic_core import InitErrorDetails

from pipeline.features.regions.imports import REGION_FILES
from pipeline.runtime.section import (
    Count,
    CountOrAdaptive,
    Name,
    Natural,
    PathOrNone,
    Section,
    Share,
    Weights,
    cross_check,
    network_problems,
    not_found,
    one_of,
    wrong_value,
)

MAX_REGIONS = 1000  # per image; more is taken for damage
# Keys of the section regions that say nothing of the values: where a run takes place, and what a
# source does not read.
PLACES = ("workers", "path")
OF_DETECTORS = ("other_images", "boxes", "min", "max", "threshold")
OF_GRIDS = ("grid", "network")


def provenance(settings: Mapping[str, Any]) -> dict[str, Any]:
    """What of the section regions the values depend on, for the file's attributes.

    Args:
        settings: the section.

    Returns:
        The keys that `source` reads, without those that say where a run takes place.
    """
    unread = PLACES + (OF_DETECTORS if settings["source"] == "grid" else OF_GRIDS)
    return {name: value for name, value in settings.items() if name not in unread}


class GridNetworkConfig(Section):
    """The network whose feature map is the grid: a section apart, with keys of image_features."""

    model: Name = "resnet18"
    weights: Weights = "detector"
    layers: Annotated[tuple[Name, ...], Field(min_length=1, strict=False)] | None = ("layer2",)
    size: Annotated[int, Field(ge=32, le=1024)] | None = 128
    resize: Literal["short_side", "squash"] = "squash"
    normalisation: Literal["torchvision", "caffe"] = "torchvision"
    precision: Literal["fp32", "bf16"] = "fp32"
    compile: bool = False

    @cross_check
    def _network_is_one(self) -> Iterator[InitErrorDetails]:
        yield from network_problems(self, "regions.network")


class RegionsConfig(Section):
    """Which regions of an image are kept, or whose file they come from."""

    source: Annotated[str, one_of(("detector", "grid", *REGION_FILES))] = "detector"
    path: PathOrNone = None
    other_images: Literal["error", "skip"] = "error"
    boxes: CountOrAdaptive = 8
    min: Count = 10
    max: Count = 100
    threshold: Share = 0.2
    grid: Annotated[tuple[Count, Count], Field(strict=False)] = (4, 4)
    network: GridNetworkConfig = GridNetworkConfig()
    batch_size: Count = 16
    workers: Natural = 2

    @cross_check
    def _path_fits_the_source(self) -> Iterator[InitErrorDetails]:
        if self.source in ("detector", "grid"):
            if self.path is not None:
                yield wrong_value("path", self.path, f"must be null when source is {self.source!r}")
        elif self.path is None:
            yield wrong_value("path", None, f"source {self.source!r} needs the path of its files")
        elif not os.path.exists(self.path):
            yield wrong_value("path", self.path, not_found(self.path))
        if self.min > self.max:
            yield wrong_value("min", self.min, f"must not exceed regions.max = {self.max}")

    @cross_check
    def _cells_are_few(self) -> Iterator[InitErrorDetails]:
        cells = self.grid[0] * self.grid[1]
        if cells > MAX_REGIONS:
            problem = f"{cells:,} cells; allowed are at most {MAX_REGIONS:,}"
            yield wrong_value("grid", list(self.grid), problem)
