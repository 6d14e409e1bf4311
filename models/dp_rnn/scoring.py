"""Scores of DP-RNN, whose full similarity is too slow to compute for every pair.

As in its training, an early score picks the images per caption that get it.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from models.base.scoring import evaluating, in_batches, scores_of
from models.dp_rnn.network import DPRNN, Sides
from models.dp_rnn.tower import Side
from pipeline.evaluation.score_file import SplitScores
from pipeline.inputs.batches import Split

CAPTIONS = 128  # captions scored at once
IMAGES = 64  # images scored at once without recurrence
PAIRS = 2048  # pairs scored at once with recurrence
SHIFT = 2.0  # least move: similarities lie in [-1, 1], but those by LogSumExp may lie beyond


def score_selecting(
    model: DPRNN, split: Split, device: torch.device, shortlist: int | None
) -> SplitScores:
    """Score a split, each caption's images of the largest early scores in full.

    The others score 2 less than their similarity without recurrence, or less by the range of all
    similarities of the split, if that is more: none ranks above one scored in full. Memory holds
    the embeddings of all images and one block of pairs. shortlist: images per caption that are not
    moved, at least 1; None: all of them. Without recurrence it decides the order alone, so that a
    reference is cut as the recurrent is.
    """
    with evaluating(model):
        batches: list[Sides] = []
        for rows in in_batches(len(split.image_ids)):
            regions: Any = split.images(rows).to(device)
            batches.append(model.embed_images(regions.features, regions.positions, regions.counts))
        sides = (zip(*parts, strict=True) for parts in zip(*batches, strict=True))
        images = [Side(*map(torch.cat, side)) for side in sides]
        pictures = model.image_vectors(images)
        scores = np.empty((len(split.image_ids), len(split.caption_ids)), np.float32)
        moved = np.zeros(scores.shape, bool)
        texts = []
        for rows in in_batches(len(split.caption_ids), CAPTIONS):
            tokens, lengths = split.captions(rows)
            captions = model.embed_captions(tokens.to(device), lengths)
            texts.append(model.caption_vectors(captions))
            early = pictures @ texts[-1].T
            block, early_only = _block(model, images, captions, early, shortlist or len(early))
            scores[:, rows], moved[:, rows] = block.cpu().numpy(), early_only.cpu().numpy()
    np.subtract(scores, max(SHIFT, np.ptp(scores).item()), out=scores, where=moved)
    return scores_of(split, scores, _unit(pictures), _unit(torch.cat(texts)))


def _rows(sides: Sides, rows: slice) -> Sides:
    return [Side(*(tensor[rows] for tensor in side)) for side in sides]


def _block(
    model: DPRNN, images: Sides, captions: Sides, early: Tensor, count: int
) -> tuple[Tensor, Tensor]:
    """Scores (N, M) of all images and a block of captions, and which of them are to be moved below
    the others, (N, M) bool; early: (N, M)."""
    size, block = early.shape
    if model.use_recurrence and count >= size:
        selected = torch.arange(size, device=early.device).expand(block, -1)
        full = _in_full(model, images, captions, selected).T
        return full, torch.zeros_like(early, dtype=torch.bool)
    parts = [slice(start, start + IMAGES) for start in range(0, size, IMAGES)]
    scores = torch.cat([model.score(_rows(images, part), captions) for part in parts])
    selected = early.T.topk(min(count, size), dim=1).indices
    if model.use_recurrence:
        full = _in_full(model, images, captions, selected)
        scores = scores.scatter(0, selected.T, full.T)
    return scores, torch.ones_like(early, dtype=torch.bool).scatter(0, selected.T, False)


def _in_full(model: DPRNN, images: Sides, captions: Sides, selected: Tensor) -> Tensor:
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


def _unit(vectors: Tensor) -> np.ndarray:
    """Rows (B, K) of length 1, for a search that takes cosines."""
    return torch.nn.functional.normalize(vectors.float(), dim=1).cpu().numpy()
