"""Regions from other tools' files: what all readers offer, the checks that all of them make, and
the job that stores what they read.

`import_job` opens the files by the reader that `regions.source` names (imports/), which
matches their ids with the corpus; `import_regions` then copies the regions image by image.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pandas as pd

from pipeline.corpus.tables import load_captions
from pipeline.features.feature_file import IMPORTED, FeatureWriter
from pipeline.features.matching.annotations import folders_near
from pipeline.features.matching.images import ImageMatcher
from pipeline.features.regions.file import ImageRegions, described, pad_regions, region_datasets
from pipeline.features.regions.imports import REGION_FILES
from pipeline.features.regions.params import MAX_REGIONS, RegionsConfig
from pipeline.features.shards import FeatureJob
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.first_bytes import stand_in
from pipeline.runtime.process import Progress, say

MAX_DIM = 1 << 16  # width of a region's feature
SKIP = "regions.other_images"  # the key that leaves out images of other corpora
# The way out where regions cannot be made of photographs.
OTHER_REGIONS = (
    "set regions.source to scan_npy, tsv or butd_h5, and regions.path to the regions; models of "
    "image vectors do without them: dvc repro evaluate@vse"
)
SHARES = 1.0 + 1e-4  # boxes up to this are shares of the image; the rest is rounding
OUTSIDE = 1.0  # pixels beyond the border that are rounding: some tools count corners, some pixels

Rows = npt.NDArray[np.int64]


class RegionSource(Protocol):
    """Files of regions with ids matched with a corpus; values are read when asked for."""

    order: Rows  # the corpus's N rows in the order of the files
    width: int  # D
    most: int  # largest number of regions of an image
    most_name: str  # where an image with that many is
    has_boxes: bool
    digest: str  # SHA-256 over all that was read

    def read(self, row: int) -> ImageRegions:
        """The regions of the image in a row of the corpus; WorkbenchError naming what is wrong."""
        ...


@dataclass(frozen=True)
class ImportCorpus:
    """The corpus for which regions are read."""

    images: pd.DataFrame
    captions: pd.DataFrame | None = None  # where a format asks for them
    skip_others: bool = False  # leave out images that only the files have, instead of raising

    def match(self, names: Sequence[str], path: Path) -> tuple[Rows, str]:
        """Which rows of a file are the images.

        Args:
            names: N ids of the file's rows.
            path: of the file or folder.

        Returns:
            (M,) the place in `names` of each image of the corpus; the digest of the annotations
            that explained the ids, empty where none were needed.
        """
        matcher = ImageMatcher(self.images["image_id"].tolist(), folders_near(path))
        places = matcher.match(names, str(path), self.skip_others, SKIP)
        return places, matcher.source_digest or ""

    def size(self, row: int) -> tuple[int, int]:
        """Width and height in pixels."""
        width, height = self.images[["width", "height"]].iloc[row].tolist()
        return width, height


def import_job(settings: RegionsConfig, images: pd.DataFrame, captions: Path | None) -> FeatureJob:
    """The job that stores regions from other tools' files.

    Args:
        settings: the section regions; its source is one of REGION_FILES.
        images: N rows of the corpus's table.
        captions: file of the corpus's captions, for formats that name images by captions; None
            where there is none.

    Returns:
        The job that writes the datasets of `region_datasets` for N images.

    Raises:
        WorkbenchError: for all that shows before values are read.
    """
    table = load_captions(captions) if captions else None
    corpus = ImportCorpus(images, table, skip_others=settings.other_images == "skip")
    open_regions = REGION_FILES.load(settings.source)
    source: RegionSource = open_regions(Path(str(settings.path)), corpus)
    attributes = described(
        images,
        settings.model_dump(),
        model=IMPORTED + settings.source,
        layer="unknown",
        weights=source.digest,
        has_boxes=source.has_boxes,
    )
    slots = imported_slots(source, settings.boxes, settings.max)
    return FeatureJob(
        ids=images["image_id"].tolist(),
        datasets=region_datasets(slots, source.width),
        attributes=attributes,
        machine=[],
        fill=partial(import_regions, source, batch_size=settings.batch_size),
    )


def import_regions(source: RegionSource, writer: FeatureWriter, *, batch_size: int) -> None:
    """Write the rows that a feature file misses, in the order of the files.

    Args:
        source: the files of regions.
        writer: of the feature file.
        batch_size: images that are read before they are written.

    Raises:
        WorkbenchError: for regions that are not finite or lie outside their image.
    """
    slots, width = writer.datasets["features"][0]
    missing = source.order[np.isin(source.order, writer.missing)]
    done = len(source.order) - len(missing)
    with Progress("region features", len(source.order), "images", done=done) as progress:
        for start in range(0, len(missing), batch_size):
            rows = missing[start : start + batch_size]
            writer.write(rows, **pad_regions([source.read(int(row)) for row in rows], slots, width))
            progress.update(len(rows))


def imported_slots(source: RegionSource, boxes: int | str, maximum: int) -> int:
    """R, the regions that a stored image has room for.

    Args:
        source: the files of regions.
        boxes: regions.boxes: a number, or adaptive for the largest number in the files.
        maximum: regions.max, the most where `boxes` is adaptive.

    Returns:
        The number, or the largest number in the files.

    Raises:
        WorkbenchError: where an image has more than the settings allow: the files do not say which
            to leave out.
    """
    if isinstance(boxes, int):
        key = "regions.boxes"
        allowed = boxes
    else:
        key = "regions.max"
        allowed = maximum
    # a box for each region says that the regions are the rows
    exchanged = "" if source.has_boxes else _exchanged(source.most, source.width)
    if source.most > allowed:
        way_out = f"set {key} to {source.most} or more, or regions.boxes to adaptive"
        raise WorkbenchError(
            f"{source.most_name} has {source.most} regions; {key} = {allowed}",
            f"{exchanged}; otherwise {way_out}" if exchanged else way_out,
        )
    if exchanged:
        say(f"{source.most_name} has {source.most} regions; {exchanged}")
    return boxes if isinstance(boxes, int) else source.most


def _exchanged(count: int, width: int) -> str:
    """What to do about more regions than a region has values, which are most likely values of
    fewer regions; empty where they are not more."""
    if not 1 < width < count:
        return ""
    return (
        f"an array has a row for each region: if these are {width:,} regions of {count:,} values, "
        "save it with its last two axes exchanged"
    )


def files_of(path: Path, pattern: str) -> list[Path]:
    """The files at a path.

    Args:
        path: of a file, or of a folder.
        pattern: glob of the files in a folder that count.

    Returns:
        The file alone, or those of the folder in the order of their names.

    Raises:
        WorkbenchError: where there is none, and for pointers in the place of files, as Git LFS
            leaves them.
    """
    files = [path] if path.is_file() else sorted(f for f in path.glob(pattern) if f.is_file())
    if not files:
        raise WorkbenchError(
            f"regions.path = {str(path)!r}: no file and no folder with {pattern}",
            "set regions.path in params.yaml",
        )
    for file in files:
        other = stand_in(file)
        if other is not None:
            raise other
    return files


def check_sizes(place: str, count: int, width: int) -> None:
    """Refuse sizes that are damage, before memory is taken for them.

    Args:
        place: of the regions, which messages begin with.
        count: K, regions of an image.
        width: D, values of a feature.

    Raises:
        WorkbenchError: for a count above MAX_REGIONS and a width not within 1 to MAX_DIM.
    """
    if not 0 <= count <= MAX_REGIONS:
        text = f"{place}: {count:,} boxes; allowed are at most {MAX_REGIONS:,}"
        raise WorkbenchError(text, _exchanged(count, width))
    if not 1 <= width <= MAX_DIM:
        raise WorkbenchError(f"{place}: features of width {width:,}; allowed are 1 to {MAX_DIM:,}")


def largest_corner(boxes: np.ndarray) -> float:
    """The largest number of some boxes (K, 4); 0 for none, NaN where one is no number."""
    return float(boxes.max()) if boxes.size else 0.0


def are_shares(corners: Iterable[float], where: Path | str) -> bool:
    """Whether boxes are shares of the image's sides, as a line then says: of boxes in pixels one
    image tells that they are none.

    Args:
        corners: the largest number of the boxes of each image.
        where: begins the line.

    Returns:
        Whether none of them exceeds 1; False for boxes that are all zero.
    """
    largest = 0.0
    for corner in corners:
        if not corner <= SHARES:  # True for NaN
            return False
        largest = max(largest, corner)
    if largest <= 0:
        return False
    say(f"{where}: no corner of a box exceeds 1, so boxes are shares of the image's sides")
    return True


def checked_regions(
    place: str,
    size: tuple[int, int],
    boxes: np.ndarray,
    features: np.ndarray,
    has_shares: bool = False,
) -> ImageRegions:
    """The regions of an image whose values may be stored.

    Args:
        place: of the regions, which messages begin with.
        size: width and height of the image in pixels.
        boxes: (K, 4) float32 x1, y1, x2, y2.
        features: (K, D) float32.
        has_shares: whether boxes are shares of the sides, and not pixels.

    Returns:
        The regions, without classes; boxes in pixels. Rows of zeros at the end, whose boxes are
        zeros, too, are padding and left out.

    Raises:
        WorkbenchError: for an image of nothing but such rows, for features that are not finite, and
            for boxes that are not finite, ordered and, but for OUTSIDE pixels, inside the image.
    """
    used = np.flatnonzero(features.any(axis=1) | boxes.any(axis=1))
    if len(features) and not len(used):
        raise WorkbenchError(
            f"{place}: all {len(features)} regions are zeros",
            "compute this image again: its place was kept free and never written",
        )
    stop = int(used[-1]) + 1 if len(used) else 0
    features = features[:stop]
    boxes = boxes[:stop]
    bad = ~np.isfinite(features).all(axis=1)
    if bad.any():
        raise WorkbenchError(f"{place}: NaN or infinite features in region {bad.argmax()}")
    if size == (0, 0) and boxes.any():
        raise WorkbenchError(
            f"{place}: boxes, and nothing says the size of the image, which has no file",
            "use files that have it, as those of regions.source: tsv, or features without boxes",
        )
    if has_shares:
        boxes = boxes * np.array([*size, *size], np.float32)
    ordered = (boxes[:, :2] <= boxes[:, 2:]).all(axis=1)  # False for NaN
    inside = (boxes >= -OUTSIDE).all(axis=1) & (boxes[:, 2:] <= np.add(size, OUTSIDE)).all(1)
    bad = ~(ordered & inside)
    if bad.any():
        first = int(bad.argmax())
        corners = ", ".join(f"{value:g}" for value in boxes[first])
        image = f"the image of {size[0]} x {size[1]} pixels"
        raise WorkbenchError(
            f"{place}: box {first} ({corners}) is not x1, y1, x2, y2 inside {image}"
        )
    return ImageRegions(size, boxes, features)
