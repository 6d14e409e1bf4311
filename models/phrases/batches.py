"""Batches of regions and phrases, in which both have neighbours of their own kind.

Random pairs seldom hold two phrases of one region or two regions of one phrase, so each region
brings one more phrase and each phrase one more region (Wang et al. 2016, section 3.3). Phrases and
regions belong together many to many, so a batch has masks instead of groups.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from models.phrases.data import PhrasePairs, dense
from models.two_branch.batches import Members
from pipeline.runtime.errors import WorkbenchError


@dataclass(frozen=True)
class PhraseBatch:
    """R regions and C phrases, each of them once."""

    regions: torch.Tensor  # (R, D) vectors, those of hard negatives last
    phrases: torch.Tensor  # (C, E) vectors
    pairs: torch.Tensor  # (R, C) bool, which belong together
    same: torch.Tensor  # (R, C) bool, True where neither is a negative of the other
    same_regions: torch.Tensor  # (R, R) bool, one phrase stands for both; True on the diagonal
    same_phrases: torch.Tensor  # (C, C) bool, both stand for one region

    def __len__(self) -> int:
        return len(self.phrases)

    def to(self, device: torch.device) -> "PhraseBatch":
        return PhraseBatch(*(part.to(device) for part in vars(self).values()))


class Mined(NamedTuple):
    """Hard negatives, H in all."""

    vectors: Callable[[np.ndarray], torch.Tensor]  # rows (B,) of hard negatives to vectors (B, D)
    phrases: np.ndarray  # (H,) the phrase that each is a negative of


class PhraseBatches:
    """Training batches: every pair of region and phrase is the seed of one batch in every epoch.
    Each region of a seed pair brings `extra_phrases` phrases, each phrase `extra_regions` regions
    and `sampled` hard negatives. A last batch of fewer than two pairs is left out."""

    def __init__(
        self,
        data: PhrasePairs,
        size: int,
        seed: int,
        extra_phrases: int = 0,
        extra_regions: int = 0,
        mined: Mined | None = None,
        sampled: int = 0,
    ) -> None:
        self.data, self.size, self.seed = data, size, seed
        self.extra_phrases, self.extra_regions = extra_phrases, extra_regions
        self.mined, self.sampled = mined, sampled
        count, (regions, phrases) = len(data.pairs), data.related.shape
        if count < 2 or phrases < 2:
            raise WorkbenchError(
                f"{count} training pairs of {phrases} phrases: at least 2 of each are needed",
                "see phrases.source in params.yaml",
            )
        self.by_region = Members(data.pairs[:, 0], regions)
        self.by_phrase = Members(data.pairs[:, 1], phrases)
        self.negatives = Members(mined.phrases, phrases) if mined else None
        self.steps = count // size + (count % size > 1)

    def epoch(self, epoch: int, first: int = 0) -> Iterator[PhraseBatch]:
        order = np.random.default_rng([self.seed, epoch]).permutation(len(self.data.pairs))
        for step in range(first, self.steps):
            rng = np.random.default_rng([self.seed, epoch, step + 1])
            yield self.batch(order[step * self.size : (step + 1) * self.size], rng)

    def batch(self, seeds: np.ndarray, rng: np.random.Generator) -> PhraseBatch:
        """The batch that grows from seed pairs, rows (B,) of `data.pairs`."""
        regions, phrases = self.rows(seeds, rng)
        related = self.data.related[regions]
        pairs = dense(related[:, phrases])
        vectors = self.data.regions(regions)
        same = pairs
        if self.mined is not None and self.negatives is not None:
            wanted, none = np.full_like(phrases, self.sampled), np.zeros(0, np.int64)
            hard = self.negatives.draw(phrases, wanted, none, rng)
            negative = torch.from_numpy(self.mined.phrases[hard][:, None] == phrases)
            vectors = torch.cat([vectors, self.mined.vectors(hard)])
            same = torch.cat([pairs, ~negative])  # what is a negative of one phrase may fit another
            pairs = torch.cat([pairs, torch.zeros_like(negative)])
        related = related.astype(np.int32)  # products of int8 could overflow
        alike = torch.eye(len(vectors), dtype=torch.bool)
        alike[: len(regions), : len(regions)] = dense(related @ related.T)
        columns = self.data.related[:, phrases].astype(np.int32)
        return PhraseBatch(
            vectors, self.data.phrases(phrases), pairs, same, alike, dense(columns.T @ columns)
        )

    def rows(self, seeds: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Sorted rows of the regions (R,) and phrases (C,) of the batch of seed pairs (B,)."""
        pairs = self.data.pairs
        regions, phrases = np.unique(pairs[seeds, 0]), np.unique(pairs[seeds, 1])
        more = self.by_region.draw(regions, np.full_like(regions, self.extra_phrases), seeds, rng)
        other = self.by_phrase.draw(phrases, np.full_like(phrases, self.extra_regions), seeds, rng)
        return np.union1d(regions, pairs[other, 0]), np.union1d(phrases, pairs[more, 1])
