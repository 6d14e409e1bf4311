"""One split as a model reads it, and the batches of pairs that training draws from it.

A split knows which caption describes which image, and fetches both as tensors by row numbers. The
order of training pairs follows from the seed and the epoch alone.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
import pandas as pd
import torch
from scipy.sparse import csr_array
from torch import Tensor

from pipeline.runtime.errors import WorkbenchError

AHEAD = 3  # batches in preparation while one is trained on

Made = TypeVar("Made")


class Regions(NamedTuple):
    """R regions of B images, padded at the end."""

    features: Tensor  # (B, R, D) float32, zero beyond the counts
    positions: Tensor  # (B, R, 4) width, height, centre x, centre y as shares of the image; zero
    # without boxes
    counts: Tensor  # (B,) int64 regions that exist, always on the CPU


class Words(NamedTuple):
    """Captions of T words, padded at the end."""

    ids: Tensor  # (B, T) word ids, or the states of tokens (B, T, E)
    lengths: Tensor  # (B,) int64 words that exist, always on the CPU


Images = Tensor | Regions  # features (B, D), pixels (B, 3, S, S), or regions
Captions = Tensor | Words  # sentence vectors (B, E), words in slots (B, S), or words


class ImageSource(Protocol):
    """The images of a split."""

    def __call__(self, rows: np.ndarray, generator: np.random.Generator | None = None) -> Images:
        """The images of some rows.

        Args:
            rows: (B,) row numbers of the split.
            generator: Decides crops and the like in training; None: as in scoring.
        """
        ...


class CaptionSource(Protocol):
    """The captions of a split."""

    def __call__(self, rows: np.ndarray, generator: np.random.Generator | None = None) -> Captions:
        """The captions of some rows.

        Args:
            rows: (B,) row numbers of the split.
            generator: Decides shifts and the like in training; None: as in scoring.
        """
        ...


@dataclass(frozen=True)
class Batch:
    """I images and C captions; a batch of pairs has one caption for each image, in its row.

    Args:
        images: Of I images.
        captions: Of C captions.
        image_groups: (I,) integers, equal where two are not each other's negatives.
        caption_groups: (C,) likewise.
        related: (I, C) bool, more that are no negatives; None for none.
        labels: (I,) classes of an instance loss; None without one.
    """

    images: Images
    captions: Captions
    image_groups: Tensor
    caption_groups: Tensor
    related: Tensor | None = None
    labels: Tensor | None = None

    def __len__(self) -> int:
        return len(self.caption_groups)

    def to(self, device: torch.device) -> "Batch":
        """The batch on a device; numbers of words and of regions stay on the CPU."""
        related = self.related
        labels = self.labels
        return Batch(
            images=to_device(self.images, device),
            captions=to_device(self.captions, device),
            image_groups=self.image_groups.to(device),
            caption_groups=self.caption_groups.to(device),
            related=None if related is None else related.to(device),
            labels=None if labels is None else labels.to(device),
        )


Side = TypeVar("Side", bound=Tensor | Regions | Words)


def to_device(side: Side, device: torch.device) -> Side:
    """Images or captions on a device; numbers of words and of regions stay on the CPU.

    Args:
        side: Images or captions.
        device: Where they are wanted.

    Returns:
        The same in the same form.
    """
    if isinstance(side, Regions):
        regions = Regions(side.features.to(device), side.positions.to(device), side.counts)
        return regions  # type: ignore[return-value]
    if isinstance(side, Words):
        return Words(side.ids.to(device), side.lengths)  # type: ignore[return-value]
    return side.to(device)  # type: ignore[return-value]


@dataclass(frozen=True)
class Split:
    """N images and M captions of one split, in the corpus's order.

    Args:
        image_ids: N.
        image_groups: N names, equal where images show the same person or are the same: they count
            as the same answer.
        caption_ids: M.
        described: (M,) row of the image that a caption describes.
        images: From rows to images.
        captions: From rows to captions.
        fits: (N, M) sparse, 1 where a caption fits another image than its own; None for nowhere.
    """

    image_ids: list[str]
    image_groups: list[str]
    caption_ids: list[str]
    described: np.ndarray
    images: ImageSource
    captions: CaptionSource
    fits: csr_array | None = None

    @property
    def groups(self) -> np.ndarray:
        """(N,) integers, equal where images are of one group."""
        numbers: np.ndarray = np.unique(self.image_groups, return_inverse=True)[1]
        return numbers

    def related(self, images: np.ndarray, captions: np.ndarray) -> Tensor | None:
        """Which images and captions are no negatives of each other though no pair.

        Args:
            images: (I,) rows.
            captions: (C,) rows.

        Returns:
            (I, C) bool; None where no caption fits another image.
        """
        if self.fits is None:
            return None
        return torch.from_numpy(self.fits[images][:, captions].toarray() > 0)


class PairBatches:
    """Training batches in which every epoch holds every pair of image and caption once.

    Args:
        split: What batches are drawn from.
        size: Pairs per batch, at least 2. A last batch of one pair, which has no negatives, is left
            out.
        seed: Decides the order, together with the number of the epoch.

    Raises:
        WorkbenchError: Fewer than two captions.
    """

    def __init__(self, split: Split, size: int, seed: int) -> None:
        self.split = split
        self.size = size
        self.seed = seed
        pairs = len(split.caption_ids)
        if pairs < 2:
            raise WorkbenchError(f"{pairs} training captions: at least 2 are needed to train")
        self.steps = pairs // size + (pairs % size > 1)
        self.groups = split.groups[split.described]

    def epoch(self, epoch: int, first: int = 0) -> Iterator[Batch]:
        """The batches of an epoch.

        Args:
            epoch: Its number, from 0.
            first: Batches to leave out, which an interrupted training has seen.

        Yields:
            Batches of `size` pairs; the last may have fewer.
        """
        order = np.random.default_rng([self.seed, epoch]).permutation(len(self.groups))
        for step in range(first, self.steps):
            yield self.batch(order[step * self.size : (step + 1) * self.size])

    def batch(self, captions: np.ndarray) -> Batch:
        """The pairs of some captions, rows (B,), with the images that they describe."""
        images = self.split.described[captions]
        groups = torch.from_numpy(self.groups[captions])
        return Batch(
            images=self.split.images(images),
            captions=self.split.captions(captions),
            image_groups=groups,
            caption_groups=groups,
            related=self.split.related(images, captions),
        )


def prefetch(make: Callable[[int], Made], steps: Iterable[int]) -> Iterator[Made]:
    """What `make` gives for each step, made in a thread ahead of its use.

    Args:
        make: From the number of a step to its batch.
        steps: Their numbers.

    Yields:
        The batches, in the order of the steps.
    """
    waiting: deque[Future[Made]] = deque()
    pool = ThreadPoolExecutor(1)
    try:
        for step in steps:
            waiting.append(pool.submit(make, step))
            if len(waiting) > AHEAD:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


def fitting_pairs(image_ids: Sequence[str], fits: pd.Series) -> csr_array | None:
    """The images that captions fit beside their own.

    Args:
        image_ids: N ids; other images are passed over.
        fits: M lists of image ids.

    Returns:
        (N, M) sparse, 1 where a caption fits; None where there are none.
    """
    named = [name for names in fits for name in names]
    images = pd.Index(image_ids).get_indexer(pd.Index(named))
    captions = np.repeat(np.arange(len(fits)), fits.map(len).to_numpy(np.int64))
    known = images >= 0
    if not known.any():
        return None
    ones = np.ones(int(known.sum()), np.int8)
    return csr_array((ones, (images[known], captions[known])), (len(image_ids), len(fits)))
