"""Which class the instance loss puts each training image into, and the file that says so.

A class is an image with its captions, or all images of a person (Zheng et al. 2020, section 4.2),
or, with fewer classes, a K-means cluster of the images' features (table 5 there).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.storage.groups import GroupFile, write_groups

# How clusters are found: arguments of pipeline.statistics.kmeans.kmeans.
KMEANS: dict[str, Any] = {"initialisation": "kmeans++", "iterations": 50, "tolerance": 0.0001}

Attributes = Mapping[str, str | int | float]


@dataclass(frozen=True, eq=False)
class PseudoClasses:
    """The class of each of N training images."""

    image_ids: list[str]  # N names in corpus order
    classes: np.ndarray  # (N,) int64 in [0, C), each with an image at least
    centres: np.ndarray | None = None  # (C, D) float32 of the clusters, or None
    inertia: Sequence[float] = ()  # sums of squared distances, before and after each update
    attributes: Attributes = field(default_factory=dict)  # what the classes were made from

    @property
    def sizes(self) -> np.ndarray:
        """(C,) int64 images of each class."""
        return np.bincount(self.classes)

    def __len__(self) -> int:
        return int(self.classes.max()) + 1

    def of(self, image_ids: Sequence[str]) -> np.ndarray:
        """(B,) int64 classes of B images; WorkbenchError naming those that have none."""
        numbers = dict(zip(self.image_ids, self.classes.tolist(), strict=True))
        missing = [name for name in image_ids if name not in numbers]
        if missing:
            raise WorkbenchError(
                f"no pseudo class for {listing(missing, 3)}; there are {len(numbers):,} images",
                "the classes belong to another corpus; bring them up to date with: dvc repro",
            )
        return np.fromiter((numbers[name] for name in image_ids), np.int64, len(image_ids))


def by_group(images: pd.DataFrame) -> PseudoClasses:
    """A class per group of images, numbered in the order of the table, of the training split."""
    classes = pd.factorize(images["group"])[0].astype(np.int64)
    return PseudoClasses(images["image_id"].tolist(), classes, attributes={"source": "instance"})


def write_pseudo_classes(path: Path | str, found: PseudoClasses, attributes: Attributes) -> None:
    """Write a row per training image, and one per class: `images` with ids and classes, `classes`
    with sizes, and centres of clusters; `iterations` with the inertia of clusters. attributes: what
    the file was made from, beside those of `found`."""
    rows: dict[str, np.ndarray | Sequence[str]] = {"sizes": found.sizes}
    groups: dict[str, dict[str, np.ndarray | Sequence[str]]] = {
        "images": {"ids": found.image_ids, "classes": found.classes},
        "classes": rows,
    }
    if found.centres is not None:
        rows["centres"] = found.centres
        groups["iterations"] = {"inertia": np.array(found.inertia, np.float64)}
    write_groups(path, groups, {**attributes, **found.attributes})


def read_pseudo_classes(path: Path | str) -> PseudoClasses:
    """Read what `write_pseudo_classes` wrote; WorkbenchError when it is damaged."""
    file = GroupFile(path)
    ids, classes = file.texts("images", "ids"), file.array("images", "classes")
    clustered = "centres" in file.names("classes")
    centres = file.array("classes", "centres") if clustered else None
    inertia = file.array("iterations", "inertia").tolist() if clustered else ()
    return PseudoClasses(ids, classes, centres, inertia, file.attributes)
