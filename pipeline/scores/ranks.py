"""Exact ranks of true items, both directions, in bounded memory.

Public code counts only items scored strictly above the true one (a collapsed model is then
perfect), takes the true score from another product than the rest (an item then outranks itself)
or lets NaN through. Here ties count against the model, true items never outrank each other, and
anything that is not a finite number is an error.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch

from pipeline.runtime.errors import WorkbenchError
from pipeline.scores.groups import Groups, TruePairs, group_codes

BLOCK = 1 << 22  # scores held at once: 16 MB of float32; larger blocks were not faster
FLOATS = (np.float32, np.float64, np.float16)


@dataclass(frozen=True)
class Ranks:
    """1-based rank of the best-ranked true item of every query.

    i2t: (N,) int64, image queries over M captions; t2i: (M,) int64, caption queries over N images.
    """

    i2t: np.ndarray
    t2i: np.ndarray


def retrieval_ranks(
    scores: np.ndarray, image_groups: Groups, caption_groups: Groups, block: int = BLOCK
) -> Ranks:
    """Rank both directions of a score matrix.

    rank = 1 + number of items that are not true and score at least as high as the best true item.
    An image and a caption belong together when their groups are equal.

    Args:
        scores: (N images, M captions) floats, larger is better.
        image_groups: (N,) integers or strings.
        caption_groups: (M,) integers or strings.
        block: number of scores looked at at once, which bounds the memory beside `scores`.

    Raises:
        WorkbenchError: empty or ill-shaped input, NaN or infinity, a query without true item.
    """
    images, captions = group_codes(image_groups, caption_groups)
    if scores.shape != (len(images), len(captions)) or scores.dtype not in FLOATS:
        raise WorkbenchError(
            f"scores of shape {scores.shape} and type {scores.dtype} for {len(images)} images "
            f"and {len(captions)} captions: expected a float matrix (images, captions)"
        )
    width = min(len(captions), block)
    height = max(1, block // width)
    pairs = TruePairs(images, captions)
    count = RankCounter(len(images), len(captions), scores.dtype)
    for rows in _slices(len(images), height):
        image, caption = pairs.of(rows)
        count.learn_best(image, caption, scores[image, caption])
    for rows in _slices(len(images), height):
        for columns in _slices(len(captions), width):
            count.add(scores[rows, columns], rows, columns)
        image, caption = pairs.of(rows)
        count.drop_true(image, caption, scores[image, caption])
    return count.ranks()


class RankCounter:
    """Counts tile by tile: the best true scores, and how many items that are not true reach them.

    Comparisons are written as float32 ones and summed: torch sums floats some twenty times faster
    than booleans, and sums of up to 2^24 ones are exact.

    Args:
        images: N.
        captions: M.
        dtype: of the scores.
    """

    def __init__(self, images: int, captions: int, dtype: np.dtype) -> None:
        self.best_i = np.full(images, -np.inf, dtype)
        self.best_t = np.full(captions, -np.inf, dtype)
        self.reach_i = np.zeros(images, np.int64)
        self.reach_t = np.zeros(captions, np.int64)
        self.buffer = torch.empty(0)

    def learn_best(self, image: np.ndarray, caption: np.ndarray, true: np.ndarray) -> None:
        """Take in the scores of true pairs.

        Args:
            image: (P,) numbers of the pairs' images.
            caption: (P,) numbers of the pairs' captions.
            true: (P,) their scores.
        """
        with np.errstate(invalid="ignore"):  # NaN is reported with its place when its tile is added
            np.maximum.at(self.best_i, image, true)
            np.maximum.at(self.best_t, caption, true)

    def add(self, scores: np.ndarray, rows: slice, columns: slice) -> None:
        """Count the items of a tile that reach the best true score, true ones included.

        Args:
            scores: (n, m) of the tile.
            rows: numbers of its images.
            columns: numbers of its captions.

        Raises:
            WorkbenchError: NaN or infinity, naming the first.
        """
        check_finite(scores, rows.start, columns.start)
        tile = _tensor(scores)
        if self.buffer.numel() < tile.numel():
            self.buffer = torch.empty(tile.numel())
        flags = self.buffer[: tile.numel()].view(tile.shape)
        best_i, best_t = torch.from_numpy(self.best_i[rows]), torch.from_numpy(self.best_t[columns])
        reached = torch.ge(tile, best_i[:, None], out=flags).sum(1)
        self.reach_i[rows] += reached.numpy().astype(np.int64)
        reached = torch.ge(tile, best_t, out=flags).sum(0)
        self.reach_t[columns] += reached.numpy().astype(np.int64)

    def drop_true(self, image: np.ndarray, caption: np.ndarray, true: np.ndarray) -> None:
        """Take true pairs out of the counts.

        Args:
            image: (P,) as given to `learn_best`.
            caption: (P,) likewise.
            true: (P,) likewise.
        """
        np.subtract.at(self.reach_i, image, true >= self.best_i[image])
        np.subtract.at(self.reach_t, caption, true >= self.best_t[caption])

    def ranks(self) -> Ranks:
        """The ranks, once every tile was added and every true pair taken out."""
        return Ranks(i2t=1 + self.reach_i, t2i=1 + self.reach_t)


def _slices(size: int, step: int) -> list[slice]:
    return [slice(start, min(start + step, size)) for start in range(0, size, step)]


def check_finite(scores: np.ndarray, top: int, left: int) -> None:
    """Refuse scores that are NaN or infinite.

    Args:
        scores: (n, m) of consecutive images and captions.
        top: number of the first image.
        left: number of the first caption.

    Raises:
        WorkbenchError: naming the first such score.
    """
    tile = _tensor(scores)
    # A sum is ten times faster than isfinite; it overflows only for scores near the type's limit.
    if math.isfinite(tile.sum()) or bool(torch.isfinite(tile).all()):
        return
    row, column = (int(part[0]) for part in torch.nonzero(~torch.isfinite(tile), as_tuple=True))
    raise WorkbenchError(
        f"score {float(tile[row, column])} of image {top + row} and caption {left + column}: "
        "every score must be a finite number",
        "the model or its features are broken; ranks of such scores would mean nothing",
    )


def _tensor(scores: np.ndarray) -> torch.Tensor:
    """The same memory as a tensor; a copy only of what torch cannot share."""
    return torch.from_numpy(np.require(scores, requirements=["C", "W"]))
