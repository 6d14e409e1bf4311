"""Scores of a model whose full similarity is too dear to compute for every pair.

DP-RNN runs a recurrent network per image and caption. As in its training, an early score picks the
images per caption that are worth it; all other pairs keep the similarity without recurrence,
moved below, so that no image of a caption that was not looked at closely is ranked above one that
was.
"""

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import torch

from models.base.scoring import in_batches
from pipeline.inputs.batches import Split
from pipeline.scores.file import SplitScores

CAPTIONS = 128  # captions scored at once
IMAGES = 64  # images scored at once without recurrence
PAIRS = 2048  # pairs scored at once with recurrence
SHIFT = 2.0  # least move: similarities lie in [-1, 1], but those by LogSumExp may lie beyond


class SelectingModel(Protocol):
    """A model with a cheap and a dear similarity (models.dp_rnn.network.DPRNN).

    What it embeds is a list of tuples of tensors, a row per image or caption.
    """

    training: bool

    @property
    def use_recurrence(self) -> bool:
        """Whether the dear similarity is to be used at all."""

    def train(self, mode: bool = True) -> object: ...

    @property
    def embed_images(self) -> Callable[..., Any]: ...

    @property
    def embed_captions(self) -> Callable[..., Any]: ...

    def image_vectors(self, images: Any, /) -> torch.Tensor: ...

    def caption_vectors(self, captions: Any, /) -> torch.Tensor: ...

    def score(self, images: Any, captions: Any, /) -> torch.Tensor: ...

    def score_selected(
        self, images: Any, captions: Any, selected: torch.Tensor, /
    ) -> torch.Tensor: ...


def score_selecting(
    model: SelectingModel, split: Split, device: torch.device, shortlist: int
) -> SplitScores:
    """Score a split, each caption's images of the largest early scores in full.

    The others score 2 less than their similarity without recurrence, or as much as all similarities
    of the split lie apart, if that is more. Where the model does not use recurrence nothing is
    selected or moved. The model is used in evaluation mode and left in the
    mode it was in. Memory holds the embeddings of all images and one block of pairs.

    Args:
        model: on the device.
        split: its images are pipeline.inputs.regions.Regions.
        device: where the model is.
        shortlist: images per caption that are scored in full.

    Raises:
        ValueError: a shortlist below 1.
    """
    if shortlist < 1:
        raise ValueError(f"shortlist {shortlist}: at least 1 is needed")
    mode = model.training
    model.train(False)
    with torch.inference_mode():
        images = _embedded_images(model, split, device)
        pictures = model.image_vectors(images)
        scores = np.empty((len(split.image_ids), len(split.caption_ids)), np.float32)
        moved = np.zeros(scores.shape, bool)
        texts = []
        for rows in in_batches(len(split.caption_ids), CAPTIONS):
            tokens, lengths = split.captions(rows)
            captions = model.embed_captions(tokens.to(device), lengths)
            texts.append(model.caption_vectors(captions))
            early = pictures @ texts[-1].T
            block, early_only = _block(model, images, captions, early, shortlist)
            scores[:, rows], moved[:, rows] = block.cpu().numpy(), early_only.cpu().numpy()
    model.train(mode)
    np.subtract(scores, max(SHIFT, np.ptp(scores).item()), out=scores, where=moved)
    return SplitScores(
        scores=scores,
        image_ids=split.image_ids,
        caption_ids=split.caption_ids,
        caption_image_ids=[split.image_ids[row] for row in split.described],
        image_groups=split.image_groups,
        image_embeddings=_unit(pictures),
        caption_embeddings=_unit(torch.cat(texts)),
    )


def _embedded_images(model: SelectingModel, split: Split, device: torch.device) -> list[Any]:
    """All images of a split as the model embeds them, tensors joined."""
    batches: list[list[Any]] = []
    for rows in in_batches(len(split.image_ids)):
        regions: Any = split.images(rows).to(device)
        batches.append(model.embed_images(regions.features, regions.positions, regions.counts))
    return [
        type(parts[0])(*map(torch.cat, zip(*parts, strict=True)))
        for parts in zip(*batches, strict=True)
    ]


def _rows(side: list[Any], rows: slice) -> list[Any]:
    """Some rows of what a model embedded."""
    return [type(part)(*(tensor[rows] for tensor in part)) for part in side]


def _block(
    model: SelectingModel, images: list[Any], captions: list[Any], early: torch.Tensor, count: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Scores (N, M) of all images and a block of captions, and which of them are to be moved below
    the others, (N, M) bool; early: (N, M)."""
    size, block = early.shape
    moved = torch.zeros_like(early, dtype=torch.bool)
    if model.use_recurrence and count >= size:
        selected = torch.arange(size, device=early.device).expand(block, -1)
        return _in_full(model, images, captions, selected).T, moved
    parts = [slice(start, start + IMAGES) for start in range(0, size, IMAGES)]
    scores = torch.cat([model.score(_rows(images, part), captions) for part in parts])
    if not model.use_recurrence:
        return scores, moved
    selected = early.T.topk(count, dim=1).indices
    full = _in_full(model, images, captions, selected)
    return scores.scatter(0, selected.T, full.T), ~moved.scatter(0, selected.T, True)


def _in_full(
    model: SelectingModel, images: list[Any], captions: list[Any], selected: torch.Tensor
) -> torch.Tensor:
    """Similarities with recurrence (M, S) of a block of captions and their images (M, S)."""
    height, width = selected.shape
    down, across = max(1, PAIRS // width), min(width, PAIRS)
    lines = []
    for top in range(0, height, down):
        rows = slice(top, top + down)
        some = _rows(captions, rows)
        parts = [selected[rows, left : left + across] for left in range(0, width, across)]
        lines.append(torch.cat([model.score_selected(images, some, part) for part in parts], 1))
    return torch.cat(lines)


def _unit(vectors: torch.Tensor) -> np.ndarray:
    """Rows (B, K) of length 1, for a search that takes cosines."""
    return torch.nn.functional.normalize(vectors.float(), dim=1).cpu().numpy()
