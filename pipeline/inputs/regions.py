"""Regions as a model's input: from row numbers of a split to features, positions and counts.

Positions are worked out here from boxes in pixels, as shares of the image.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from pipeline.inputs.sources import MEMORY_BUDGET, FeatureRows, moments
from pipeline.inputs.words import WordInputs
from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.storage.features import FeatureFile

DATASETS = ("features", "boxes", "sizes", "counts")


@dataclass(frozen=True)
class Regions:
    """Regions of B images, padded at the end; positions are shares of the image."""

    features: Tensor  # (B, R, D) float32, zero beyond the counts
    positions: Tensor  # (B, R, 4) width, height, centre x, centre y; zero without boxes
    counts: Tensor  # (B,) int64 regions per image, always on the CPU

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def tensors(self) -> tuple[Tensor, Tensor, Tensor]:
        """What `embed_images` takes: features, positions and counts."""
        return self.features, self.positions, self.counts

    def to(self, device: torch.device) -> "Regions":
        return Regions(self.features.to(device), self.positions.to(device), self.counts)


class RegionRows(FeatureRows):
    """Regions of N images: rows (B,) to Regions. features: a file as open_regions returns it."""

    def __call__(self, rows: np.ndarray) -> Regions:
        chosen = self.rows[rows]
        counts = torch.from_numpy(self.features.read(chosen, "counts")).long()
        boxes = torch.from_numpy(self.features.read(chosen, "boxes")).float()
        sizes = torch.from_numpy(self.features.read(chosen, "sizes")).float()
        features = torch.from_numpy(self.features.read(chosen)).float()
        return Regions(features, relative_positions(boxes, sizes), counts)

    def moments(self, block: int = 256) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation (D,) float32 of the features of all regions, no padding."""
        count = len(self.rows)
        if not self.features.read(self.rows, "counts").any():
            raise WorkbenchError(f"{self.features.path}: none of the {count:,} images has a region")
        return moments(lambda rows: _real(self(rows)), count, block)


def relative_positions(boxes: Tensor, sizes: Tensor) -> Tensor:
    """(B, R, 4) width, height, centre x, centre y as shares of the image; zero for a zero box.
    boxes: (B, R, 4) x1, y1, x2, y2 in pixels; sizes: (B, 2) width, height in pixels."""
    first, second = boxes[..., :2], boxes[..., 2:]
    return torch.cat([second - first, (first + second) / 2], -1) / sizes.repeat(1, 2)[:, None]


def open_regions(path: Path, in_memory: bool = True) -> FeatureFile:
    """A file of regions, read into memory where they fit the budget unless told not to."""
    file = FeatureFile(path)
    lacking = [name for name in DATASETS if name not in file.layouts]
    if lacking:
        raise WorkbenchError(
            f"{path}: not a file of regions: it has no {listing(lacking)}",
            "this model takes the file that extract_region_features writes",
        )
    if in_memory:
        file.in_memory(MEMORY_BUDGET)
        for name in DATASETS[1:]:
            file.in_memory(MEMORY_BUDGET // 8, name)
    return file


class RegionInputs(WordInputs):
    """The regions of every image, and captions as word ids of a vocabulary."""

    open_features = staticmethod(open_regions)

    def images(self, ids: list[str]) -> RegionRows:
        return RegionRows(self.features, ids)


def has_boxes(file: FeatureFile) -> bool:
    """Whether the regions of a file have boxes; features imported from SCAN's .npy have none."""
    return bool(file.attributes.get("has_boxes", 1))


def require_boxes(file: FeatureFile, setting: str) -> None:
    """Raise WorkbenchError, naming the setting that needs boxes, when the regions have none."""
    if not has_boxes(file):
        raise WorkbenchError(
            f"{setting} needs the boxes of the regions; {file.path} has none: it was imported from "
            f"{file.attributes.get('model', 'a file without boxes')}",
            f"switch {setting} off, or use another regions.source",
        )


def names_of(file: FeatureFile, kind: str) -> list[str]:
    """Names of the classes in a file of regions; kind: object_names or attribute_names."""
    names: list[str] = json.loads(str(file.attributes.get(kind, "[]")))
    return names


def _real(regions: Regions) -> Tensor:
    """(sum of counts, D) float64 features without the padding."""
    inside = torch.arange(regions.features.shape[1]) < regions.counts[:, None]
    return regions.features[inside].double()
