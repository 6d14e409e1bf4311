"""From tables to batches of (image, caption) pairs.

A split knows which caption describes which image and how to fetch both as tensors, by a function of
row numbers (pipeline.inputs.sources). The order of training pairs follows from the seed and the
epoch alone.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import torch
from scipy.sparse import csr_array

from pipeline.corpus.tables import in_split, load_captions, load_images
from pipeline.runtime.errors import WorkbenchError, listing

AHEAD = 3  # batches in preparation while one is trained on

Made = TypeVar("Made")
# Rows (B,) to a tensor or Regions, and to what `embed_captions` takes: (word ids, lengths) or
# (vectors,), of which the first goes to the device.
ImageSource = Callable[[np.ndarray], Any]
CaptionSource = Callable[[np.ndarray], tuple[torch.Tensor, ...]]


@dataclass(frozen=True)
class Batch:
    """B pairs of an image and a caption that describes it."""

    images: Any  # (B, D) features, or pipeline.inputs.regions.Regions
    captions: torch.Tensor  # (B, T) word ids or (B, T, E) states of tokens, padded at the end
    lengths: torch.Tensor  # (B,) words or tokens per caption, always on the CPU
    groups: torch.Tensor  # (B,) integers, equal where pairs are not each other's negatives
    related: torch.Tensor | None = None  # (B, B) bool, images in rows, True: no negatives either

    def __len__(self) -> int:
        return len(self.groups)

    def to(self, device: torch.device) -> "Batch":
        return Batch(
            self.images.to(device),
            self.captions.to(device),
            self.lengths,
            self.groups.to(device),
            None if self.related is None else self.related.to(device),
        )


@dataclass(frozen=True)
class Split:
    """The images and captions of one split, in the corpus's order."""

    image_ids: list[str]
    image_groups: list[str]  # (N,) equal where images show the same person or are the same
    caption_ids: list[str]
    described: np.ndarray  # (M,) row of the image that a caption describes
    images: ImageSource
    captions: CaptionSource
    fits: csr_array | None = None  # (N, M) 1 where a caption fits another image than its own

    def related(self, images: np.ndarray, captions: np.ndarray) -> torch.Tensor | None:
        """What is no negative though no pair, (I, C) bool for rows (I,) and (C,); None for none."""
        if self.fits is None:
            return None
        return torch.from_numpy(self.fits[images][:, captions].toarray() > 0)


class PairBatches:
    """Training batches: every epoch holds every (image, caption) pair of a split once, in an order
    that seed and epoch decide. A last batch of one pair, which has no negatives, is left out."""

    def __init__(self, split: Split, size: int, seed: int) -> None:
        self.split, self.size, self.seed = split, size, seed
        pairs = len(split.caption_ids)
        if pairs < 2:
            raise WorkbenchError(f"{pairs} training captions: at least 2 are needed to train")
        self.steps = pairs // size + (pairs % size > 1)
        self.groups = np.unique(split.image_groups, return_inverse=True)[1][split.described]

    def epoch(self, epoch: int, first: int = 0) -> Iterator[Batch]:
        """The batches of an epoch (from 0), from number `first` on."""
        order = np.random.default_rng([self.seed, epoch]).permutation(len(self.groups))
        for step in range(first, self.steps):
            yield self.batch(order[step * self.size : (step + 1) * self.size])

    def batch(self, pairs: np.ndarray) -> Batch:
        """The batch of given pairs (B,), each named by the row of its caption."""
        captions, lengths = self.split.captions(pairs)
        rows = self.split.described[pairs]
        related = self.split.related(rows, pairs)
        groups = torch.from_numpy(self.groups[pairs])
        return Batch(self.split.images(rows), captions, lengths, groups, related)


def drawn(source: Any, rows: np.ndarray, generator: np.random.Generator) -> Any:
    """What a source gives for rows (B,) in training: its `augmented(rows, generator)` where it has
    one, as models.backbone.image_cnn.PixelRows."""
    if hasattr(source, "augmented"):
        return source.augmented(rows, generator)
    return source(rows)


def prepared_ahead(make: Callable[[int], Made], steps: Iterable[int]) -> Iterator[Made]:
    """What `make` gives for each step, in their order, made in a thread AHEAD of its use."""
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


def read_split(
    name: str,
    images: Path,
    captions: Path,
    image_source: Callable[[list[str]], ImageSource],
    caption_source: Callable[[pd.DataFrame], CaptionSource],
) -> Split:
    """One split, from the two tables of the corpus. image_source: from N image ids to their source;
    caption_source: from M rows of the captions table to theirs."""
    pictures, texts = in_split(load_images(images), name), in_split(load_captions(captions), name)
    described = pd.Index(pictures["image_id"]).get_indexer(pd.Index(texts["image_id"]))
    lost = texts["caption_id"][described < 0]
    if len(lost):
        raise WorkbenchError(
            f"{captions}: {len(lost)} captions of split {name!r} describe images that are not in "
            f"that split of {images}: {listing(lost)}",
            "the tables are of different corpora; bring them up to date with: dvc repro",
        )
    ids = pictures["image_id"].tolist()
    return Split(
        image_ids=ids,
        image_groups=pictures["group"].tolist(),
        caption_ids=texts["caption_id"].tolist(),
        described=described.astype(np.int64),
        images=image_source(ids),
        captions=caption_source(texts),
        fits=fitting(ids, texts["fits"]),
    )


def fitting(image_ids: list[str], fits: pd.Series) -> csr_array | None:
    """The images that captions fit beside their own, (N, M) sparse; None where there are none.
    image_ids: N; others are passed over; fits: M lists of image ids."""
    images = pd.Index(image_ids).get_indexer(pd.Index([name for names in fits for name in names]))
    captions = np.repeat(np.arange(len(fits)), fits.map(len).to_numpy(np.int64))
    known = images >= 0
    if not known.any():
        return None
    ones = np.ones(int(known.sum()), np.int8)
    return csr_array((ones, (images[known], captions[known])), (len(image_ids), len(fits)))
