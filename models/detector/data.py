"""From the corpus's tables to batches of images with boxes, object classes and attributes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from models.detector.metrics import GroundTruth
from pipeline.corpus.loading import ImageFiles
from pipeline.corpus.tables import in_split, load_boxes, load_images
from pipeline.runtime.errors import WorkbenchError, listing

CACHE_BYTES = 2 * 2**30
TOLERANCE = 1.0  # pixels that a box may reach over the border: rounding in annotation tools


@dataclass(frozen=True)
class Labels:
    """Names in the order of their numbers. objects: C, classes from 1; attributes: A, from 0."""

    objects: tuple[str, ...]
    attributes: tuple[str, ...]


@dataclass(frozen=True)
class DetectionBatch:
    """B images (3, H, W) uint8 RGB, of any sizes, and their objects."""

    images: list[Tensor]
    truths: list[GroundTruth]

    def to(self, device: torch.device) -> "DetectionBatch":
        """Copy images and objects to a device; what is there already is taken as it is."""
        images = [image.to(device) for image in self.images]
        return DetectionBatch(images, [truth.to(device) for truth in self.truths])


class LabelledImages:
    """N images of one split with their objects; decoded images are kept in memory up to a limit.

    Args:
        files: the images.
        truths: the objects of each.
        budget: bytes of decoded images that are kept.
    """

    def __init__(
        self, files: ImageFiles, truths: Sequence[GroundTruth], budget: int = CACHE_BYTES
    ) -> None:
        self.files = files
        self.truths = truths
        self.budget = budget
        self._kept: dict[int, Tensor] = {}
        self._bytes = 0

    def __len__(self) -> int:
        return len(self.truths)

    def image(self, row: int) -> Tensor:
        """Image `row`, (3, H, W) uint8 RGB; WorkbenchError when its file has changed."""
        if row in self._kept:
            return self._kept[row]
        try:
            picture = self.files.open(row)
        except WorkbenchError as error:
            hint = "check the file, then run: dvc repro -f prepare_corpus"
            raise WorkbenchError(error.message, hint) from None
        image = torch.from_numpy(np.array(picture)).permute(2, 0, 1).contiguous()
        if self._bytes + image.nbytes <= self.budget:
            self._kept[row] = image
            self._bytes += image.nbytes
        return image

    def batch(self, rows: Sequence[int] | np.ndarray) -> DetectionBatch:
        """The batch of the given rows (B,)."""
        numbers = [int(row) for row in rows]
        return DetectionBatch([self.image(n) for n in numbers], [self.truths[n] for n in numbers])


class DetectionBatches:
    """Training batches: an epoch holds some different images, once each.

    A last batch of one image is left out: batch normalisation over one image is noise.

    Args:
        data: of the training split.
        size: images per batch.
        seed: with the epoch's number it alone decides the order.
        images_per_epoch: how many images an epoch has, None for all.

    Raises:
        WorkbenchError: too few images for a batch of two.
    """

    def __init__(
        self, data: LabelledImages, size: int, seed: int, images_per_epoch: int | None = None
    ) -> None:
        self.data = data
        self.size = size
        self.seed = seed
        self.images = min(images_per_epoch or len(data), len(data))
        self.steps = self.images // size + (self.images % size > 1)
        if not self.steps:
            raise WorkbenchError(
                f"{self.images} training images with objects in batches of {size}: "
                "at least 2 are needed to train a detector"
            )

    def epoch(self, epoch: int, first: int = 0) -> Iterator[DetectionBatch]:
        """The batches of an epoch.

        Args:
            epoch: its number, which decides the order with the seed.
            first: step to begin with, where a training is resumed.

        Yields:
            Batches of `size` images, the last one perhaps smaller.
        """
        order = np.random.default_rng([self.seed, epoch]).permutation(len(self.data))
        order = order[: self.images]
        for step in range(first, self.steps):
            yield self.data.batch(order[step * self.size : (step + 1) * self.size])


def read_labels(images: Path, boxes: Path) -> Labels:
    """Object classes and attributes of the training split's boxes, by name.

    Args:
        images: the corpus's table of images.
        boxes: its table of boxes.

    Returns:
        Sorted names of object classes (C, one at least) and of attributes (A, perhaps none).

    Raises:
        WorkbenchError: no training image has a box.
    """
    pictures = in_split(load_images(images), "train")
    table = load_boxes(boxes)
    table = table[table["image_id"].isin(pictures["image_id"])]
    if table.empty:
        raise WorkbenchError(
            f"{boxes}: no boxes of training images, so no detector can be trained on this corpus",
            "set detector.weights in params.yaml to random or to the path of a weights file",
        )
    attributes = {name for names in table["attributes"] for name in names}
    return Labels(tuple(sorted(set(table["object"]))), tuple(sorted(attributes)))


def read_labelled_images(images: Path, boxes: Path, split: str, labels: Labels) -> LabelledImages:
    """The images of a split that have objects, in the corpus's order.

    Args:
        images: the corpus's table of images.
        boxes: its table of boxes.
        split: train, val or test.
        labels: of the training split; classes and attributes that only other splits have are
            left out.

    Returns:
        The images with the boxes, class numbers and attributes of their objects; those without an
        object of a known class are left out.

    Raises:
        WorkbenchError: boxes of unknown images, empty ones, or some that leave their image.
    """
    table = load_boxes(boxes)
    pictures = load_images(images)
    _check_boxes(boxes, table, pictures)
    number = {name: index + 1 for index, name in enumerate(labels.objects)}
    known = table[table["object"].isin(labels.objects)]
    by_image = {str(name): rows for name, rows in known.groupby("image_id")}
    chosen = in_split(pictures, split)
    chosen = chosen[chosen["image_id"].isin(list(by_image))]
    sizes = chosen[["width", "height"]].to_numpy().tolist()
    truths = [
        _ground_truth(by_image[name], size, classes=number, attributes=labels.attributes)
        for name, size in zip(chosen["image_id"], sizes, strict=True)
    ]
    return LabelledImages(ImageFiles(chosen, None), truths)


def _ground_truth(
    rows: pd.DataFrame, size: list[int], classes: dict[str, int], attributes: tuple[str, ...]
) -> GroundTruth:
    """The objects in some rows of the boxes table, clipped to an image of width and height."""
    boxes = torch.tensor(rows[["x1", "y1", "x2", "y2"]].to_numpy(np.float32))
    boxes = boxes.clamp(torch.zeros(4), torch.tensor([*size, *size], dtype=torch.float32))
    named = np.array([[name in names for name in attributes] for names in rows["attributes"]])
    return GroundTruth(
        boxes,
        torch.tensor([classes[name] for name in rows["object"]]),
        torch.from_numpy(named.reshape(len(rows), len(attributes)).astype(np.float32)),
    )


def _check_boxes(path: Path, boxes: pd.DataFrame, images: pd.DataFrame) -> None:
    """Refuse boxes that are of unknown images, empty, or more than a pixel over the border."""
    sized = boxes.merge(images[["image_id", "width", "height"]], on="image_id", how="left")
    corners = sized[["x1", "y1", "x2", "y2"]].to_numpy(np.float64)
    limits = sized[["width", "height"]].to_numpy(np.float64)
    unknown = np.isnan(limits).any(1)
    low = corners[:, :2]
    high = corners[:, 2:]
    inside = ((low >= -TOLERANCE) & (high <= limits + TOLERANCE)).all(1)  # False for NaN
    filled = (np.minimum(high, limits) - np.maximum(low, 0) > 0).all(1)
    wrong = {
        "of images that are not in the corpus": unknown,
        "outside their image": ~unknown & ~inside,
        "empty": ~unknown & inside & ~filled,
    }
    problems = []
    for what, bad in wrong.items():
        named = [
            f"row {row}, image {box.image_id}: {box.x1:g} {box.y1:g} {box.x2:g} {box.y2:g}"
            for row, box in zip(np.flatnonzero(bad), boxes[bad].itertuples(), strict=True)
        ]
        if named:
            problems.append(f"{len(named)} boxes {what}: {listing(named, 3)}")
    if problems:
        raise WorkbenchError(f"{path}: " + "; ".join(problems), "mend the annotations of the boxes")
