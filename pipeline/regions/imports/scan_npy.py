"""SCAN's arrays of regions (N, R, D) without boxes, in folders that pipeline.matching.precomp
reads."""

import hashlib
from pathlib import Path

import numpy as np

from pipeline.matching.precomp import PrecompFolder
from pipeline.regions.file import ImageRegions
from pipeline.regions.imports.source import SKIP, ImportCorpus, check_sizes, checked_regions
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.files import sha256_file


class ScanRegions:
    """Regions in a folder of SCAN's files; a row of zeros at the end of an image's is padding."""

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
            if (width := place.values.shape[2]) != self.width:
                others = f"{longest.path} has {self.width:,}"
                raise WorkbenchError(f"{place.path}: features of width {width:,}; {others}")

    def read(self, row: int) -> ImageRegions:
        """Regions of one image, boxes zero; WorkbenchError naming array and row."""
        place = self.places[row]
        features = np.array(place.values[place.rows.start], np.float32)
        used = np.flatnonzero(features.any(axis=1))
        features = features[: used[-1] + 1 if used.size else 0]
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
