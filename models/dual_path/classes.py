"""Which class the instance loss puts each training image into, and the file that says so.

A class is an image with its captions, or all images of a person (Zheng et al. 2020, section 4.2),
or, with fewer classes, a K-means cluster of the images' features (table 5 there; clusters.py).
Classes are numbered here once, so that the classifier and its training data cannot disagree.

Every command imports this file for its section of params.yaml: what reads files is imported in the
functions that do so.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.runtime.section import Count, Section

if TYPE_CHECKING:
    import pandas as pd

# How clusters are found: arguments of pipeline.features.statistics.kmeans.kmeans.
KMEANS: dict[str, Any] = {"initialisation": "kmeans++", "iterations": 50, "tolerance": 0.0001}

Attributes = Mapping[str, str | int | float]


class PseudoClassesConfig(Section):
    """The section `pseudo_classes` of params.yaml."""

    source: Literal["instance", "kmeans"] = "instance"  # a class per group of images, or clusters
    k: Count = 300  # clusters, read by kmeans alone


@dataclass(frozen=True, eq=False)
class PseudoClasses:
    """The class of each of N training images.

    Args:
        image_ids: N names in the corpus's order.
        classes: (N,) int64 in [0, C), each with an image at least.
        centres: (C, D) float32 of the clusters, or None.
        inertia: Sums of squared distances, before the first update of the centres and after each;
            empty without clusters.
        attributes: What the classes were made from.
    """

    image_ids: list[str]
    classes: np.ndarray
    centres: np.ndarray | None = None
    inertia: Sequence[float] = ()
    attributes: Attributes = field(default_factory=dict)

    @property
    def sizes(self) -> np.ndarray:
        """(C,) int64 images of each class."""
        return np.bincount(self.classes)

    def __len__(self) -> int:
        return int(self.classes.max()) + 1

    def labels_of(self, image_ids: Sequence[str]) -> np.ndarray:
        """(B,) int64 classes of B images; WorkbenchError naming those that have none."""
        numbers = dict(zip(self.image_ids, self.classes.tolist(), strict=True))
        missing = [name for name in image_ids if name not in numbers]
        if missing:
            raise WorkbenchError(
                f"no pseudo class for {listing(missing, 3)}; there are {len(numbers):,} images",
                "the classes belong to another corpus; bring them up to date with: dvc repro",
            )
        return np.fromiter((numbers[name] for name in image_ids), np.int64, len(image_ids))


def group_classes(images: "pd.DataFrame") -> PseudoClasses:
    """A class per group of images, numbered in the order of the table, of the training split."""
    numbers, _ = images["group"].factorize()
    classes = numbers.astype(np.int64)
    return PseudoClasses(images["image_id"].tolist(), classes, attributes={"source": "instance"})


def write_pseudo_classes(path: Path | str, found: PseudoClasses, attributes: Attributes) -> None:
    """Write a row per training image, and one per class.

    Groups of the file: `images` with ids and classes; `classes` with sizes, and centres of
    clusters; `iterations` with the inertia of clusters.

    Args:
        path: Of the file.
        found: The classes.
        attributes: What the file was made from, beside those of `found`.
    """
    from pipeline.features.groups import write_groups

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
    from pipeline.features.groups import GroupFile

    file = GroupFile(path)
    is_clustered = "centres" in file.names("classes")
    return PseudoClasses(
        image_ids=file.texts("images", "ids"),
        classes=file.array("images", "classes"),
        centres=file.array("classes", "centres") if is_clustered else None,
        inertia=file.array("iterations", "inertia").tolist() if is_clustered else (),
        attributes=file.attributes,
    )
