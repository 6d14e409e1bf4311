"""Which class the instance loss puts each training image into, and the file that says so.

A class is an image with its captions, or all images of a person (Zheng et al. 2020, section 4.2),
or, with fewer classes, a K-means cluster of the images' features (table 5 there). Classes are
numbered here once, so that a checkpoint's classifier and its training data cannot disagree.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.storage.groups import GroupFile, write_groups
from pipeline.storage.hdf5 import damaged

# How clusters are found: arguments of pipeline.statistics.kmeans.kmeans.
KMEANS: dict[str, Any] = {"initialisation": "kmeans++", "iterations": 50, "tolerance": 0.0001}

Attributes = Mapping[str, str | int | float]


@dataclass(frozen=True, eq=False)
class PseudoClasses:
    """The class of each of N training images.

    Attributes:
        image_ids: N names in corpus order.
        classes: (N,) int64 in [0, C), each with an image at least.
        centres: (C, D) float32 of the clusters, or None.
        inertia: sum of squared distances before the first update of the centres and after each,
            empty without clusters.
        attributes: what the classes were made from.
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
        """C, the number of classes."""
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
    """Write a row per training image, and one per class.

    Groups: `images` with ids and classes; `classes` with sizes, and centres of clusters;
    `iterations` with the inertia of clusters.

    Args:
        path: of the file, data/features/pseudo_classes.h5.
        found: the classes.
        attributes: what the file was made from, beside those of `found`.
    """
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
    """Read what `write_pseudo_classes` wrote; WorkbenchError when it is anything else."""
    file = GroupFile(path)
    if missing := {"images", "classes"} - set(file.layouts):
        raise WorkbenchError(
            f"{path}: no pseudo classes: it has no group {listing(sorted(missing))}",
            "write it with: dvc repro cluster_pseudo_classes",
        )
    ids, classes = file.texts("images", "ids"), file.array("images", "classes")
    sizes = file.array("classes", "sizes")
    _check(file.path, ids, classes, sizes)
    clustered = "centres" in file.names("classes")
    centres = file.array("classes", "centres") if clustered else None
    inertia = file.array("iterations", "inertia").tolist() if clustered else ()
    if centres is not None and (centres.ndim != 2 or len(centres) != len(sizes)):
        raise damaged(file.path, f"centres of shape {centres.shape} for {len(sizes)} classes")
    return PseudoClasses(ids, classes, centres, inertia, file.attributes)


def _check(path: Path, ids: Sequence[str], classes: np.ndarray, sizes: np.ndarray) -> None:
    if classes.dtype != np.int64 or classes.shape != (len(ids),) or not len(ids):
        raise damaged(path, f"{len(ids)} ids, classes of shape {classes.shape} and {classes.dtype}")
    if len(set(ids)) != len(ids):
        raise damaged(path, "some ids occur more than once")
    # compared before counting: counting would allocate as much as the largest number asks for
    if not 0 <= classes.min() <= classes.max() < len(sizes) <= len(ids):
        raise damaged(path, f"classes {classes.min()} to {classes.max()}, sizes of {len(sizes)}")
    if not np.array_equal(np.bincount(classes, minlength=len(sizes)), sizes) or not sizes.all():
        raise damaged(path, "sizes that are not those of the classes")
