"""How regions are laid out in a feature file, for whoever writes one: the detector or an import."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from pipeline.corpus.tables import images_digest
from pipeline.storage.layout import Array

# Keys of the section regions that say nothing of the values: where a run takes place, and what a
# source does not read.
PLACES = ("workers", "path")
DETECTED, GRID = ("other_images", "boxes", "min", "max", "threshold"), ("grid", "network")


def used(settings: Mapping[str, Any]) -> dict[str, Any]:
    """What of the section regions the values depend on."""
    unread = PLACES + (DETECTED if settings["source"] == "grid" else GRID)
    return {name: value for name, value in settings.items() if name not in unread}


def described(
    images: pd.DataFrame,
    settings: Mapping[str, Any],
    *,
    model: str,
    layer: str,
    weights: str,
    objects: Sequence[str] = (),
    attributes: Sequence[str] = (),
    has_boxes: bool = True,
) -> dict[str, str | int | float]:
    """What a file of regions says of itself.

    Args:
        images: of the corpus.
        settings: the section regions; what changes no value (workers, where files lie) is left out.
        model: name of the detector, or what the regions were imported from.
        layer: whose output the features are.
        weights: digest of the detector, or of the files that were imported.
        objects: names of the object classes, by number.
        attributes: names of the attribute classes, by number.
        has_boxes: whether the boxes are more than zeros.
    """
    return {
        "model": model,
        "layer": layer,
        "weights_sha256": weights,
        "params": json.dumps(used(settings)),
        "corpus_sha256": images_digest(images),
        "object_names": json.dumps(list(objects), ensure_ascii=False),
        "attribute_names": json.dumps(list(attributes), ensure_ascii=False),
        "has_boxes": int(has_boxes),
    }


MAX_DIM = 1 << 16  # width of a region's feature


@dataclass(frozen=True)
class ImageRegions:
    """The K regions of one image.

    Attributes:
        size: width, height in pixels.
        boxes: (K, 4) float32 x1, y1, x2, y2 in pixels.
        features: (K, D) float32.
        objects: (K,) class numbers, None where unknown.
        attributes: (K,) class numbers, None where unknown.
        confidences: (K,) of the objects, None where unknown.
        attribute_confidences: (K,) of the attributes, None where unknown.
    """

    size: tuple[int, int]
    boxes: npt.NDArray[np.float32]
    features: npt.NDArray[np.float32]
    objects: npt.NDArray[np.int64] | None = None
    attributes: npt.NDArray[np.int64] | None = None
    confidences: npt.NDArray[np.float32] | None = None
    attribute_confidences: npt.NDArray[np.float32] | None = None


def region_datasets(slots: int, width: int) -> dict[str, tuple[tuple[int, ...], str]]:
    """Shape of a row and type of every dataset; slots: R; width: D."""
    return {
        "features": ((slots, width), "float16"),
        "boxes": ((slots, 4), "float32"),
        "sizes": ((2,), "int32"),
        "counts": ((), "int32"),
        "objects": ((slots,), "int32"),
        "attributes": ((slots,), "int32"),
        "confidences": ((slots,), "float32"),
        "attribute_confidences": ((slots,), "float32"),
    }


def packed(images: Sequence[ImageRegions], slots: int, width: int) -> dict[str, Array]:
    """The datasets' rows of some images: zero beyond the counts, classes -1.

    Features stay float32; the writer converts them and notices what float16 cannot hold.

    Args:
        images: B of them, with at most R regions each.
        slots: R.
        width: D.

    Returns:
        Dataset name -> (B, ...).
    """
    arrays: dict[str, Array] = {
        name: np.zeros((len(images), *row), "float32" if name == "features" else dtype)
        for name, (row, dtype) in region_datasets(slots, width).items()
    }
    arrays["objects"][:] = arrays["attributes"][:] = -1
    for row, image in enumerate(images):
        count = len(image.features)
        arrays["sizes"][row], arrays["counts"][row] = image.size, count
        for name in arrays.keys() - {"sizes", "counts"}:
            values = getattr(image, name)
            if values is not None:
                arrays[name][row, :count] = values
    return arrays


def packed_alike(
    sizes: npt.NDArray[np.int64],
    boxes: npt.NDArray[np.float32],
    features: npt.NDArray[np.float32],
) -> dict[str, Array]:
    """The datasets' rows of images that all have R regions, of no class.

    Args:
        sizes: (B, 2) widths and heights, pixels.
        boxes: (B, R, 4) x1, y1, x2, y2 in pixels.
        features: (B, R, D).
    """
    shapes = region_datasets(*features.shape[1:])
    arrays: dict[str, Array] = {
        name: np.zeros((len(sizes), *row), dtype) for name, (row, dtype) in shapes.items()
    }
    arrays |= {"features": features, "boxes": boxes}
    arrays["sizes"][:], arrays["counts"][:] = sizes, features.shape[1]
    arrays["objects"][:] = arrays["attributes"][:] = -1
    return arrays
