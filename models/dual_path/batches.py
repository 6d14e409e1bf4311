"""Training batches drawn by image, as the dual-path network classifies images: an epoch is a pass
over the images. Everything random follows from the seed, the epoch and the step."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from pipeline.inputs.batches import Split, drawn, prepared_ahead
from pipeline.runtime.errors import WorkbenchError, listing


@dataclass(frozen=True)
class ImageBatch:
    """B images, each with one caption."""

    images: Tensor  # (B, D) float32 features or (B, 3, S, S) uint8 pixels
    captions: Tensor  # (B, S) word ids in slots, or whatever the caption source gives first
    groups: Tensor  # (B,) integers, equal where they are not each other's negatives
    labels: Tensor  # (B,) class numbers of the instance loss
    related: Tensor | None = None  # (B, B) bool, more that are no negatives

    def __len__(self) -> int:
        return len(self.groups)

    def to(self, device: torch.device) -> "ImageBatch":
        parts = {name: part for name, part in vars(self).items() if part is not None}
        return ImageBatch(**{name: part.to(device) for name, part in parts.items()})


class ImageBatches:
    """Training batches: every epoch holds every image of a split once, with a caption drawn anew;
    an image without captions of its own gets one of its group. A last batch of one image, which has
    no negatives, is left out.

    size: images per batch; labels: (N,) classes of the images from 0 on, or None: one class per
    group. WorkbenchError for fewer than two images and groups without a caption.
    """

    def __init__(
        self,
        split: Split,
        size: int,
        seed: int,
        labels: np.ndarray | None = None,
    ) -> None:
        images = len(split.image_ids)
        if images < 2:
            raise WorkbenchError(f"{images} training images: at least 2 are needed to train")
        self.split, self.size, self.seed = split, size, seed
        self.steps = images // size + (images % size > 1)
        self.groups = np.unique(split.image_groups, return_inverse=True)[1]
        self.labels = self.groups if labels is None else np.asarray(labels, np.int64)
        self.captions = _captions_of_images(split, self.groups)

    def epoch(self, epoch: int, first: int = 0) -> Iterator[ImageBatch]:
        order = np.random.default_rng([self.seed, epoch]).permutation(len(self.groups))
        yield from prepared_ahead(partial(self.batch, order, epoch), range(first, self.steps))

    def batch(self, order: np.ndarray, epoch: int, step: int) -> ImageBatch:
        """One batch of an epoch; order: (N,) rows of the images as the epoch has them."""
        rows = order[step * self.size : (step + 1) * self.size]
        # 1 + step: numpy takes [seed, epoch, 0] for [seed, epoch], which has made the order
        generator = np.random.default_rng([self.seed, epoch, 1 + step])
        choices = generator.random(len(rows))
        captions = np.array(
            [
                self.captions[row][int(u * len(self.captions[row]))]
                for row, u in zip(rows, choices, strict=True)
            ]
        )
        return ImageBatch(
            drawn(self.split.images, rows, generator),
            drawn(self.split.captions, captions, generator)[0],
            torch.from_numpy(self.groups[rows]),
            torch.from_numpy(self.labels[rows]),
            self.split.related(rows, captions),
        )


def _captions_of_images(split: Split, groups: np.ndarray) -> list[np.ndarray]:
    """For each of N images the caption rows it may be trained with."""
    own = _rows_by(split.described, len(groups))
    of_group = _rows_by(groups[split.described], int(groups.max()) + 1)
    bare = [number for number, rows in enumerate(of_group) if not len(rows)]
    if bare:
        names = np.unique(split.image_groups)[bare]
        raise WorkbenchError(
            f"{len(bare)} groups of training images have no caption: {listing(names)}",
            "give each group a caption or remove its images from the corpus",
        )
    return [rows if len(rows) else of_group[group] for rows, group in zip(own, groups, strict=True)]


def _rows_by(keys: np.ndarray, count: int) -> list[np.ndarray]:
    """The places of each key 0 to count - 1 in `keys`, in their order."""
    order = np.argsort(keys, kind="stable")
    return np.split(order, np.searchsorted(keys[order], np.arange(1, count)))
