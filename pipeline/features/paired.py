"""Two feature files that one pass over images fills: rows of the images, and rows of boxes in them.

As a `FeatureJob` does with its one file, what was killed is continued, and rows of earlier runs are
taken where all that they depend on is the same. An image is computed where any row of it is new.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from pipeline.features.batches import packed_batches
from pipeline.features.feature_file import FeatureWriter, Rows, whole_batches
from pipeline.features.kept_rows import KeptRows, RowStore
from pipeline.features.shards import FeatureRows, fill_around
from pipeline.runtime.files import fingerprint
from pipeline.runtime.process import say

# Computes batches of images and writes the rows of these and of their boxes.
FillBoth = Callable[[list[Rows], FeatureWriter, FeatureWriter], None]


@dataclass(frozen=True)
class PairedFiles:
    """Two feature files that are to be made together."""

    images: FeatureRows  # N rows
    boxes: FeatureRows  # R rows
    owners: Rows  # (R,) the row of the image of each box
    batch: int  # images that are computed together
    fill: FillBoth

    def write(self, work: Path, outputs: tuple[Path, Path], store: RowStore) -> None:
        """Make both files.

        Args:
            work: folder for unfinished work.
            outputs: the file of images and that of boxes.
            store: of rows of earlier runs.

        Raises:
            WorkbenchError: for values that cannot be stored.
        """
        parts = ((self.images, work), (self.boxes, work / "truth"))
        images, boxes = (_writer(rows, folder) for rows, folder in parts)
        with images, boxes:
            kept = self.images.kept(store)
            if kept is None or not self._fill_around(kept, self.boxes.kept(store), images, boxes):
                todo = self._images_of(images.missing, boxes.missing)
                self.fill(whole_batches(todo, self.batch, len(self.images.ids)), images, boxes)
            boxes.finish(outputs[1])
            images.finish(outputs[0])
        self.images.keep(store, outputs[0], images.checksums)
        self.boxes.keep(store, outputs[1], boxes.checksums)

    def _fill_around(
        self, kept: KeptRows, of_boxes: KeptRows | None, images: FeatureWriter, boxes: FeatureWriter
    ) -> bool:
        assert self.images.inputs is not None, "rows are found by their inputs"
        known = of_boxes.rows if of_boxes else np.array([], np.int64)
        say(
            f"reused {len(kept.rows):,} of {len(images.ids):,} rows of images and "
            f"{len(known):,} of {len(boxes.ids):,} rows of boxes of an earlier run"
        )
        todo = self._images_of(
            np.setdiff1d(images.missing, kept.rows), np.setdiff1d(boxes.missing, known)
        )
        batches = packed_batches(todo, self.images.inputs)
        images.expect(kept.rows, kept.checksums, batches)
        if of_boxes:
            boxes.expect(of_boxes.rows, of_boxes.checksums, batches)
        return fill_around(
            partial(self.fill, batches, images, boxes), [(images, kept), (boxes, of_boxes)]
        )

    def _images_of(self, images: Rows, boxes: Rows) -> Rows:
        return np.union1d(images, self.owners[boxes])


def _writer(rows: FeatureRows, work: Path) -> FeatureWriter:
    """What continues unfinished work, whose inputs may not be those of `corpus_sha256` alone."""
    assert rows.inputs is not None, "rows are found by their inputs"
    key = fingerprint(work=rows.key(rows.attributes), inputs=list(rows.inputs.keys))
    return FeatureWriter(work, key, rows.ids, rows.datasets, rows.attributes)
