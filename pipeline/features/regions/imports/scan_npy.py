"""Arrays of regions in .npy: SCAN's (N, R, D) of whole splits without boxes, in folders that
matching/precomp.py reads, or a file for each image (regions/per_image.py)."""

import hashlib
from pathlib import Path

import numpy as np

from pipeline.features.arrays.per_image import images_of_folder, is_folder_of_images
from pipeline.features.matching.precomp import PrecompFolder, is_precomp
from pipeline.features.regions.file import ImageRegions
from pipeline.features.regions.per_image import PerImageRegions
from pipeline.features.regions.source import (
    SKIP,
    ImportCorpus,
    RegionSource,
    check_sizes,
    checked_regions,
)
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.files import sha256_file


def open_regions(path: Path, corpus: ImportCorpus) -> RegionSource:
    """Open SCAN's arrays of whole splits, or a folder with an array for each image.

    Args:
        path: of the folder.
        corpus: whose images they are.

    Returns:
        Their regions.

    Raises:
        WorkbenchError: for damaged arrays, and where the images are not those of the corpus.
    """
    if is_folder_of_images(path) and not is_precomp(path):
        return PerImageRegions([path], images_of_folder, corpus)
    return ScanRegions(path, corpus)


class ScanRegions:
    """Regions in SCAN's arrays; see RegionSource. Rows of zeros at the end of an image's are
    padding.

    Args:
        folder: with {train,dev,test}_ims.npy and their captions or ids.
        corpus: whose images they are.

    Raises:
        WorkbenchError: for arrays of different widths, and where nothing says which images they
            show.
    """

    has_boxes = False

    def __init__(self, folder: Path, corpus: ImportCorpus) -> None:
        self.corpus = corpus
        table = PrecompFolder(folder, corpus.images, corpus.captions, corpus.skip_others, SKIP)
        self.places = table.places(3)
        self.digest = self._digest()
        self.order = np.arange(len(self.places))
        longest = max(self.places, key=lambda place: place.values.shape[1])
        self.most, self.width = longest.values.shape[1:]
        self.most_name = str(longest.path)
        check_sizes(self.most_name, self.most, self.width)
        for place in self.places:
            width = place.values.shape[2]
            if width != self.width:
                others = f"{longest.path} has {self.width:,}"
                raise WorkbenchError(f"{place.path}: features of width {width:,}; {others}")

    def read(self, row: int) -> ImageRegions:
        """The regions of the image in a row of the corpus, boxes zero; WorkbenchError naming array
        and row."""
        place = self.places[row]
        features = np.array(place.values[place.rows.start], np.float32)
        no_boxes = np.zeros((len(features), 4), np.float32)
        regions = checked_regions(place.name, self.corpus.size(row), no_boxes, features)
        for other in place.rows[1:]:
            if not np.array_equal(place.values[other], place.values[place.rows.start]):
                raise WorkbenchError(
                    f"{place.path}: rows {place.rows.start:,} and {other:,} differ, but should "
                    f"both show {self.corpus.images['image_id'].iat[row]}"
                )
        return regions

    def _digest(self) -> str:
        digest = hashlib.sha256()
        for path in dict.fromkeys(place.path for place in self.places):
            pairs = zip(self.corpus.images["image_id"], self.places, strict=True)
            shown = [f"{name}\0{at.rows.start}\n" for name, at in pairs if at.path == path]
            digest.update((sha256_file(path) + "".join(shown)).encode())
        return digest.hexdigest()
