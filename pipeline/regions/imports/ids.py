"""Which image of the corpus a row of another tool's file describes.

Files carry the numbers that a dataset gave its images, a corpus the names of their files. An id
matches, in this order: the image_id itself; the file's name without folder and ending (Flickr30k:
1000092795 is 1000092795.jpg); for MS-COCO the twelve digits that end the file's name, as an integer
(391895 is val2014/COCO_val2014_000000391895.jpg). The first of these that finds an image counts.
"""

import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import PurePosixPath

import numpy as np
import numpy.typing as npt

from pipeline.embeddings.job import matched
from pipeline.runtime.errors import listing

COCO = re.compile(r"(?:^|_)(\d{12})$")
HINT = (
    "ids are matched with image_id, with the file's name without its ending, or with the integer "
    "that ends MS-COCO's file names; regions.other_images = skip leaves out images that are not in "
    "the corpus"
)


class ImageMatcher:
    """Rows of a corpus by the ids of other tools; skip_others: leave out ids of other images."""

    def __init__(self, image_ids: Sequence[str], skip_others: bool = False) -> None:
        self.image_ids, self.skip_others = image_ids, skip_others
        self.tiers: list[dict[str, list[int]]] = [defaultdict(list) for _ in range(3)]
        for row, name in enumerate(image_ids):
            stem = PurePosixPath(name).stem
            self.tiers[0][name].append(row)
            self.tiers[1][stem].append(row)
            if match := COCO.search(stem):
                self.tiers[2][str(int(match[1]))].append(row)

    def rows(self, name: str) -> list[int]:
        """Rows of the corpus that an id may mean: one, none, or several where it is ambiguous."""
        number = str(int(name)) if name.isascii() and name.isdigit() and len(name) < 20 else name
        for tier, key in zip(self.tiers, (name, name, number), strict=True):
            if key in tier:
                return tier[key]
        return []

    def match(self, names: Sequence[str], where: str) -> npt.NDArray[np.int64]:
        """(N,) the place in `names` that describes each image of the corpus; WorkbenchError for ids
        that occur twice or match no image or several, and images without an id."""
        described = [self._described(name, self.rows(name)) for name in names]
        rows = matched(where, described, self.image_ids, self.skip_others, HINT)
        inside = np.flatnonzero(rows >= 0)
        places = np.empty(len(self.image_ids), np.int64)
        places[rows[inside]] = inside
        return places

    def _described(self, name: str, rows: list[int]) -> str:
        """The image_id of an id; where it is ambiguous, the id with what it may mean."""
        if len(rows) == 1:
            return self.image_ids[rows[0]]
        images = listing((self.image_ids[row] for row in rows), 3)
        return f"{name} (one of {images})" if rows else name
