"""Scores of a split by models that compare an image and a caption part by part: by blocks of images
and of captions of equal length, since a whole split would fill any memory."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from models.base.scoring import evaluating, in_batches, scores_of
from models.layers.linear import inside
from pipeline.evaluation.score_file import SplitScores
from pipeline.inputs.batches import Split
from pipeline.runtime.process import Progress
from pipeline.training.params import Precision

EMBED_IMAGES = 64  # images embedded at once
CAPTION_BLOCK = 256  # captions embedded and scored at once
BLOCK_VALUES = 1 << 21  # products of a region and a word at once: 8 MB per tensor of them
TELL_FROM = 1 << 20  # pairs from which on progress is shown


def score_pairs(
    model: Any, split: Split, device: torch.device, precision: Precision = "fp32"
) -> SplitScores:
    """Score every image of a split against every caption by `score` of a model, which is as that of
    models.scan.network.SCAN, in evaluation mode.

    Beside the scores, (N, M) float32, and the embedded regions, (N, R, K) float32, memory holds one
    block of captions and a few tensors of at most BLOCK_VALUES values (or of one image with
    CAPTION_BLOCK captions). precision: bf16 rounds the embedded vectors and their inner products.
    """
    with evaluating(model):
        regions = embedded_regions(model, split, device)
        scores, captions = _score_blocks(model, *regions, split, device, precision == "bf16")
    return scores_of(split, scores, mean_vectors(*regions).cpu().numpy(), captions)


def embedded_regions(model: Any, split: Split, device: torch.device) -> tuple[Tensor, Tensor]:
    """Vectors (N, R, K) of the regions of a split's images, padded at the end; counts (N,)."""
    vectors, counts = [], []
    for rows in in_batches(len(split.image_ids), EMBED_IMAGES):
        regions = split.images(rows).to(device)
        vectors.append(model.embed_images(*regions.tensors))
        counts.append(regions.counts)
    return torch.cat(vectors), torch.cat(counts)


def mean_vectors(vectors: Tensor, counts: Tensor) -> Tensor:
    """One unit row (B, K) per set: the direction of the mean of the first counts (B,) of its unit
    vectors (B, R, K); zeros for a set of none."""
    present = inside(counts, vectors.shape[1], vectors.device)
    return normalize(normalize(vectors.float(), dim=2).where(present[..., None], 0.0).sum(1), dim=1)


def caption_blocks(split: Split, size: int) -> Iterator[np.ndarray]:
    """Rows (B,) of all captions in blocks of one length and at most `size`, the shortest first."""
    batches = in_batches(len(split.caption_ids))
    lengths = np.concatenate([split.captions(rows)[1].numpy() for rows in batches])
    order = np.argsort(lengths, kind="stable")
    changes = np.flatnonzero(np.diff(lengths[order])) + 1
    for same in np.split(order, changes):
        for rows in in_batches(len(same), size):
            yield same[rows]


def _score_blocks(
    model: Any,
    vectors: Tensor,
    counts: Tensor,
    split: Split,
    device: torch.device,
    reduced: bool,
) -> tuple[np.ndarray, np.ndarray]:
    """Scores (N, M), in bf16 if reduced, and the captions' mean vectors (M, K); vectors: (N, R,
    K)."""
    count, width, dim = vectors.shape
    scores = np.empty((count, len(split.caption_ids)), np.float32)
    means = np.empty((len(split.caption_ids), dim), np.float32)
    blocks = caption_blocks(split, CAPTION_BLOCK)
    for rows in _shown(blocks, len(means)) if scores.size >= TELL_FROM else blocks:
        tokens, lengths = split.captions(rows)
        words = model.embed_captions(tokens.to(device), lengths)
        means[rows] = mean_vectors(words, lengths).cpu().numpy()
        size = max(1, BLOCK_VALUES // (width * words.shape[0] * words.shape[1]))
        for some in in_batches(count, size):
            part = slice(some[0], some[-1] + 1)
            with torch.autocast(device.type, torch.bfloat16, enabled=reduced):
                block = model.score(vectors[part], counts[part], words, lengths)
            scores[part, rows] = block.cpu().numpy()
    return scores, means


def _shown(blocks: Iterator[np.ndarray], total: int) -> Iterator[np.ndarray]:
    with Progress("scoring", total, "captions") as progress:
        for rows in blocks:
            yield rows
            progress.update(len(rows))
