"""Which images and captions are ranked against each other: the whole split, folds, or a subset."""

import re

import numpy as np

from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.scores.ranking import Direction

PROTOCOL = re.compile(r"full|first_[0-9]+k?|[0-9]+k?_x([1-9][0-9]{0,5})")  # its folds are group 1
# row numbers of the images (i2t) and captions (t2i) that are ranked against each other
Fold = dict[Direction, np.ndarray]


def cut_folds(images: np.ndarray, captions: np.ndarray, folds: int) -> list[Fold]:
    """Contiguous folds of the images by group numbers (N,), with the captions (M,) of their groups.
    Raises WorkbenchError when `folds` does not divide N or a group would lie in two folds."""
    if len(images) % folds:
        allowed = [str(k) for k in range(1, min(len(images), 1000) + 1) if len(images) % k == 0]
        raise WorkbenchError(
            f"evaluation.folds = {folds}: does not divide the {len(images)} test images; "
            f"allowed are {listing(allowed, 20)}",
            "set evaluation.folds in params.yaml; 1 ranks all test images at once",
        )
    fold_of_image = np.arange(len(images)) // (len(images) // folds)
    fold_of_group = np.zeros(int(images.max()) + 1, np.int64)
    fold_of_group[images] = fold_of_image
    cut = np.unique(images[fold_of_group[images] != fold_of_image])
    if len(cut):
        raise WorkbenchError(
            f"evaluation.folds = {folds}: would divide {len(cut)} persons between folds",
            "set evaluation.folds to 1 in params.yaml",
        )
    fold_of_caption = fold_of_group[captions]
    return [
        {"i2t": np.flatnonzero(fold_of_image == k), "t2i": np.flatnonzero(fold_of_caption == k)}
        for k in range(folds)
    ]


def protocol_name(images: int, folds: int, cut: bool = False) -> str:
    """ "full", folds such as "1k_x5" and "200_x5", or of a subset (cut) "first_1k", "first_200"."""
    if folds == 1 and not cut:
        return "full"
    number = images // folds
    size = f"{number // 1000}k" if number % 1000 == 0 else f"{number}"
    return f"first_{size}" if cut else f"{size}_x{folds}"
