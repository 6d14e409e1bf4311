"""Batches in which images and captions have neighbours of their own kind.

Random pairs seldom hold two captions of one image, and then the within-view terms of the loss have
nothing to do. So a batch of pairs is filled up with more captions of its images and, where images
share a group, more images (Wang et al. 2016, end of section 2.2, and section 3.3).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from pipeline.inputs.batches import Split, drawn, prepared_ahead
from pipeline.runtime.errors import WorkbenchError


@dataclass(frozen=True)
class Neighbourhood:
    """I images and C captions, each of them once, of at least two groups."""

    images: Tensor  # (I, D) features, or (I, 3, S, S) uint8 pixels
    captions: Tensor  # (C, E) vectors
    image_groups: Tensor  # (I,) integers, equal where images and captions belong together
    caption_groups: Tensor  # (C,) likewise
    related: Tensor | None = None  # (I, C) bool, more that are no negatives

    def __len__(self) -> int:
        return len(self.caption_groups)

    def to(self, device: torch.device) -> "Neighbourhood":
        parts = {name: part for name, part in vars(self).items() if part is not None}
        return Neighbourhood(**{name: part.to(device) for name, part in parts.items()})


class NeighbourBatches:
    """Training batches: in every epoch every (image, caption) pair is once the seed of a batch,
    which grows as far as their groups have other images and captions.

    A last batch of a single pair is left out; any other whose seeds are of one group gets a further
    seed of another, since it would have no negatives. Images are augmented as their source can.

    size: seed pairs per batch; extra_captions: captions of its group that each image of a seed pair
    brings, 0 for none; extra_images: images that each group of a seed pair brings, 0 for none;
    ahead: whether batches are prepared in a thread, for slow sources. WorkbenchError for fewer than
    two pairs, and pairs of one group only.
    """

    def __init__(
        self,
        split: Split,
        size: int,
        seed: int,
        extra_captions: int = 1,
        extra_images: int = 1,
        ahead: bool = False,
    ) -> None:
        self.split, self.size, self.seed, self.ahead = split, size, seed, ahead
        self.extra_captions, self.extra_images = extra_captions, extra_images
        pairs = len(split.caption_ids)
        if pairs < 2:
            raise WorkbenchError(f"{pairs} training captions: at least 2 are needed to train")
        names, groups = np.unique(split.image_groups, return_inverse=True)
        self.images = Members(groups, len(names))
        self.captions = Members(groups[split.described], len(names))
        if (self.captions.counts > 0).sum() < 2:
            name = names[self.captions.groups[0]]
            raise WorkbenchError(
                f"all {pairs} training captions belong to one group ({name}): captions of at least "
                "2 groups are needed to train"
            )
        self.steps = pairs // size + (pairs % size > 1)

    def epoch(self, epoch: int, first: int = 0) -> Iterator[Neighbourhood]:
        order = np.random.default_rng([self.seed, epoch]).permutation(len(self.captions.groups))
        run = prepared_ahead if self.ahead else map
        yield from run(partial(self._of_step, order, epoch), range(first, self.steps))

    def _of_step(self, order: np.ndarray, epoch: int, step: int) -> Neighbourhood:
        # numpy takes [a, b] and [a, b, 0] for the same seed
        rng = np.random.default_rng([self.seed, epoch, step + 1])
        return self.batch(order[step * self.size : (step + 1) * self.size], rng)

    def batch(self, pairs: np.ndarray, rng: np.random.Generator) -> Neighbourhood:
        """The batch that grows from seed pairs (B,), each named by the row of its caption; the
        seeds come first among the captions, in their order."""
        images, captions = self.rows(self.with_two_groups(pairs, rng), rng)
        return Neighbourhood(
            drawn(self.split.images, images, rng),
            self.split.captions(captions)[0],
            torch.from_numpy(self.images.groups[images]),
            torch.from_numpy(self.captions.groups[captions]),
            self.split.related(images, captions),
        )

    def with_two_groups(self, pairs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """The seed pairs, and one of another group when they are all of one."""
        groups = self.captions.groups
        if (groups[pairs] != groups[pairs[0]]).any():
            return pairs
        return np.append(pairs, rng.choice(np.flatnonzero(groups != groups[pairs[0]])))

    def rows(self, pairs: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Rows of the images (I,) and of the captions (C,) of the batch of seed pairs (B,)."""
        images = np.unique(self.split.described[pairs])
        groups, members = np.unique(self.images.groups[images], return_counts=True)
        captions = self.captions.draw(groups, self.extra_captions * members, pairs, rng)
        neighbours = self.images.draw(groups, np.full_like(groups, self.extra_images), images, rng)
        return np.append(images, neighbours), np.append(pairs, captions)


class Members:
    """Which rows belong to which group, and random draws from them. groups: (N,) of each row,
    integers below `count`; counts: (count,) rows per group."""

    def __init__(self, groups: np.ndarray, count: int) -> None:
        self.groups = groups
        self.counts = np.bincount(groups, minlength=count)
        self._rows = np.argsort(groups, kind="stable")
        self._starts = np.cumsum(self.counts) - self.counts

    def draw(
        self, groups: np.ndarray, wanted: np.ndarray, taken: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        """Rows drawn without replacement; a group with too few gives all it has. groups: (G,)
        different groups; wanted: (G,) rows of each; taken: (T,) rows that must not be drawn."""
        counts = self.counts[groups]
        owner = np.repeat(np.arange(len(groups)), counts)  # place in `groups` of each candidate
        within = np.arange(len(owner)) - (np.cumsum(counts) - counts)[owner]
        candidates = self._rows[self._starts[groups][owner] + within]
        free = np.isin(candidates, taken, invert=True)
        candidates, owner = candidates[free], owner[free]
        return candidates[some_of_each(owner, wanted[owner], rng)]


def some_of_each(
    groups: np.ndarray, most: np.ndarray | int, rng: np.random.Generator
) -> np.ndarray:
    """Places drawn from N items without replacement, at most `most` of a group, group by group.
    groups: (N,) integers; most: a number, or of each item that of its group, (N,)."""
    order = np.lexsort((rng.random(len(groups)), groups))
    ordered = groups[order]  # a group's items follow each other, in random order
    rank = np.arange(len(order)) - np.searchsorted(ordered, ordered)
    return order[rank < (most if isinstance(most, int) else most[order])]
