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

from pipeline.runtime.errors import listing
from pipeline.runtime.process import say
from pipeline.runtime.text import Problems

COCO = re.compile(r"(?:^|_)(\d{12})$")


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
        places: dict[int, int] = {}
        twice: list[str] = []
        unknown: list[str] = []
        ambiguous: list[str] = []
        for place, name in enumerate(names):
            rows = self.rows(name)
            if len(rows) != 1:
                (ambiguous if rows else unknown).append(self._described(name, rows))
            elif rows[0] in places:
                twice.append(name)
            else:
                places[rows[0]] = place
        missing = [name for row, name in enumerate(self.image_ids) if row not in places]
        problems = Problems(where)
        problems.add("ids more than once", twice)
        problems.add("ids that match several images", ambiguous)
        if not self.skip_others:
            problems.add("ids of images that are not in the corpus", unknown)
        problems.add("images of the corpus without an id there", missing)
        problems.raise_if_any(
            "ids are matched with image_id, with the file's name without its ending, or with the "
            "integer that ends MS-COCO's file names; regions.other_images = skip leaves out images "
            "that are not in the corpus"
        )
        if unknown:
            count = f"{len(unknown):,} images that are not in the corpus"
            say(f"{where}: left out {count}: {listing(unknown)}")
        return np.array([places[row] for row in range(len(self.image_ids))], dtype=np.int64)

    def _described(self, name: str, rows: list[int]) -> str:
        shown = name if name.isprintable() and len(name) < 100 else repr(name[:100])
        return f"{shown} ({listing((self.image_ids[row] for row in rows), 3)})" if rows else shown
