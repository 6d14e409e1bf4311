"""How regions are laid out in a feature file, for whoever writes one: the detector or an import."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from pipeline.corpus.tables import images_digest
from pipeline.features.layout import Array
from pipeline.features.regions.params import provenance


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
    """What a file of regions says of itself, its attributes.

    Args:
        images: N rows of the corpus's table.
        settings: the section regions.
        model: name of the detector, or what the regions were imported from.
        layer: whose output the features are.
        weights: digest of the detector, or of the imported files.
        objects: names of the classes of objects, by number; none where there are no classes.
        attributes: names of the classes of attributes, likewise.
        has_boxes: whether the boxes are known.

    Returns:
        Attributes by name.
    """
    return {
        "model": model,
        "layer": layer,
        "weights_sha256": weights,
        "params": json.dumps(provenance(settings)),
        "corpus_sha256": images_digest(images),
        "object_names": json.dumps(list(objects), ensure_ascii=False),
        "attribute_names": json.dumps(list(attributes), ensure_ascii=False),
        "has_boxes": int(has_boxes),
    }


@dataclass(frozen=True)
class ImageRegions:
    """The K regions of one image; None for what is unknown."""

    size: tuple[int, int]  # width, height in pixels
    boxes: npt.NDArray[np.float32]  # (K, 4) x1, y1, x2, y2 in pixels
    features: npt.NDArray[np.float32]  # (K, D)
    objects: npt.NDArray[np.int64] | None = None  # (K,) class numbers
    attributes: npt.NDArray[np.int64] | None = None  # (K,) class numbers
    confidences: npt.NDArray[np.float32] | None = None  # (K,) of the objects
    attribute_confidences: npt.NDArray[np.float32] | None = None  # (K,)


def region_datasets(slots: int, width: int) -> dict[str, tuple[tuple[int, ...], str]]:
    """The datasets of a file of regions.

    Args:
        slots: R, the regions that an image has room for.
        width: D, values of a feature.

    Returns:
        Shape of a row and type of each, by name.
    """
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


def pad_regions(images: Sequence[ImageRegions], slots: int, width: int) -> dict[str, Array]:
    """The datasets' rows of some images, as they are stored.

    Args:
        images: B images with at most R regions each.
        slots: R.
        width: D, values of a feature.

    Returns:
        (B, ...) by dataset: zero beyond an image's regions, classes -1; features stay float32.
    """
    arrays: dict[str, Array] = {
        name: np.zeros((len(images), *row), "float32" if name == "features" else dtype)
        for name, (row, dtype) in region_datasets(slots, width).items()
    }
    arrays["objects"].fill(-1)
    arrays["attributes"].fill(-1)
    for row, image in enumerate(images):
        count = len(image.features)
        arrays["sizes"][row] = image.size
        arrays["counts"][row] = count
        for name in arrays.keys() - {"sizes", "counts"}:
            values = getattr(image, name)
            if values is not None:
                arrays[name][row, :count] = values
    return arrays
