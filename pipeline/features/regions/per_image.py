"""Regions in arrays of their own for each image: (K, D) and, where there are any, boxes (K, 4).

Boxes are x1, y1, x2, y2 in pixels of the corpus's image; where none exceeds 1, shares of its sides.
Other arrays, such as the probabilities of classes, are not read.
"""

import hashlib
from collections.abc import Callable
from pathlib import Path

import numpy as np

from pipeline.features.arrays.file import Array
from pipeline.features.arrays.per_image import ImageArrays
from pipeline.features.regions.file import ImageRegions
from pipeline.features.regions.source import (
    ImportCorpus,
    are_shares,
    check_sizes,
    checked_regions,
    largest_corner,
)
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.files import sha256_file


class PerImageRegions:
    """Regions of images in HDF5 files or in a folder of arrays; see RegionSource.

    Args:
        files: HDF5 files, or one folder.
        read: what lists the images of each.
        corpus: whose images they are.

    Raises:
        WorkbenchError: for arrays of other types and shapes, for boxes that some images have and
            some do not, and for ids that are not those of the corpus.
    """

    def __init__(
        self, files: list[Path], read: Callable[[Path], list[ImageArrays]], corpus: ImportCorpus
    ) -> None:
        self.corpus = corpus
        self.images = [image for file in files for image in read(file)]
        first = self.images[0]
        self.has_boxes = first.boxes is not None
        for image in self.images:
            self._check(image, first)
        self.width = first.features.shape[1]
        where = files[0] if len(files) == 1 else files[0].parent
        boxes = (_values(image.boxes) for image in self.images if image.boxes is not None)
        self.has_shares = are_shares(map(largest_corner, boxes), where)
        self.places, explained = corpus.match([image.name for image in self.images], where)
        self.order = np.argsort(self.places)
        chosen = [self.images[place] for place in self.places]
        longest = max(chosen, key=lambda image: image.features.shape[0])
        self.most = longest.features.shape[0]
        self.most_name = longest.features.place
        paths = dict.fromkeys(image.path for image in self.images)
        digests = "".join(sha256_file(path) for path in paths)
        self.digest = hashlib.sha256((digests + explained).encode()).hexdigest()

    def read(self, row: int) -> ImageRegions:
        """The regions of the image in a row of the corpus; WorkbenchError naming file and
        dataset."""
        image = self.images[self.places[row]]
        size = self.corpus.size(row)
        features = _values(image.features)
        boxes = np.zeros((len(features), 4), np.float32)
        if image.boxes is not None:
            boxes = _values(image.boxes)
        return checked_regions(image.features.place, size, boxes, features, self.has_shares)

    def _check(self, image: ImageArrays, first: ImageArrays) -> None:
        place = image.features.place
        shape = image.features.shape
        for array in filter(None, (image.features, image.boxes)):
            array.check_floats()
        if len(shape) != 2:
            raise WorkbenchError(
                f"{place}: shape {shape}; expected are regions (K, D)",
                "one vector an image is read with image_features.source: file",
            )
        check_sizes(place, shape[0], shape[1])
        if shape[1:] != first.features.shape[1:]:
            others = f"{first.features.place} has {first.features.shape[1]:,}"
            raise WorkbenchError(f"{place}: width {shape[1]:,}; {others}")
        if (image.boxes is not None) != self.has_boxes:
            raise WorkbenchError(
                f"{place}: {'no ' if self.has_boxes else ''}boxes beside it, unlike "
                f"{first.features.place}",
                "take the boxes out or write those of every image",
            )
        if image.boxes is not None and image.boxes.shape != (shape[0], 4):
            raise WorkbenchError(
                f"{image.boxes.place}: shape {image.boxes.shape}; {place} has {shape[0]:,} "
                f"regions, so expected is ({shape[0]}, 4)"
            )


def _values(array: Array) -> np.ndarray:
    """(K, ...) float32."""
    return np.concatenate(list(array.blocks())).astype(np.float32, copy=False)
