"""Scores of a split by models that compare an image and a caption part by part.

Such a model needs every pair of regions and words at once, which for a whole split would fill any
memory: here it gets blocks of images and of captions of equal length.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch.nn.functional import normalize, pad

from models.base.scoring import in_batches
from pipeline.inputs.batches import Split
from pipeline.runtime.process import Progress
from pipeline.scores.file import SplitScores
from pipeline.training.params import Precision

EMBED_IMAGES = 64  # images embedded at once
CAPTION_BLOCK = 256  # captions embedded and scored at once
BLOCK_VALUES = 1 << 21  # products of a region and a word at once: 8 MB per tensor of them
TELL_FROM = 1 << 20  # pairs from which on progress is shown


class PairModel(Protocol):
    """A model that scores pairs of sets of vectors (models.scan.network.SCAN)."""

    training: bool

    def train(self, mode: bool = True) -> object: ...

    def embed_images(
        self, features: torch.Tensor, positions: torch.Tensor, counts: torch.Tensor, /
    ) -> torch.Tensor: ...

    def embed_captions(self, tokens: torch.Tensor, lengths: torch.Tensor, /) -> torch.Tensor: ...

    def score(
        self,
        regions: torch.Tensor,
        counts: torch.Tensor,
        words: torch.Tensor,
        lengths: torch.Tensor,
        /,
    ) -> torch.Tensor: ...


@dataclass(frozen=True)
class EmbeddedRegions:
    """Vectors of all images' regions. vectors: (N, R, K); counts: (N,) on the CPU."""

    vectors: torch.Tensor
    counts: torch.Tensor


def score_pairs(
    model: PairModel, split: Split, device: torch.device, precision: Precision = "fp32"
) -> SplitScores:
    """Score every image of a split against every caption by `model.score`.

    The model is used in evaluation mode and left in the mode it was in. Beside the result, (N, M)
    float32, and the embedded regions, (N, R, K) float32, memory holds one block of captions and a
    few tensors of at most BLOCK_VALUES values (or of one image with CAPTION_BLOCK captions).

    Args:
        model: on the device.
        split: its images are pipeline.inputs.regions.Regions.
        device: where the model is.
        precision: bf16 rounds the embedded vectors and their inner products to it.

    Returns:
        The scores; image_embeddings and caption_embeddings are mean vectors, with which search
        makes its shortlist.
    """
    mode = model.training
    model.train(False)
    with torch.inference_mode():
        images = embedded_regions(model, split, device)
        scores, captions = _score_blocks(model, images, split, device, precision == "bf16")
    model.train(mode)
    return SplitScores(
        scores=scores,
        image_ids=split.image_ids,
        caption_ids=split.caption_ids,
        caption_image_ids=[split.image_ids[row] for row in split.described],
        image_groups=split.image_groups,
        image_embeddings=mean_vectors(images.vectors, images.counts).cpu().numpy(),
        caption_embeddings=captions,
    )


def embedded_regions(model: PairModel, split: Split, device: torch.device) -> EmbeddedRegions:
    """Embed the regions of all images of a split, batch by batch.

    Args:
        model: on the device.
        split: N images.
        device: where the model is.

    Returns:
        Vectors (N, R, K), padded at the end, and counts (N,).
    """
    vectors, counts = [], []
    for rows in in_batches(len(split.image_ids), EMBED_IMAGES):
        regions = split.images(rows).to(device)
        vectors.append(model.embed_images(regions.features, regions.positions, regions.counts))
        counts.append(regions.counts)
    most = max(batch.shape[1] for batch in vectors)
    padded = [pad(batch, (0, 0, 0, most - batch.shape[1])) for batch in vectors]
    return EmbeddedRegions(torch.cat(padded), torch.cat(counts))


def mean_vectors(vectors: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
    """One unit row (B, K) per set: the direction of the mean of its unit vectors (B, R, K).

    Only the first counts (B,) vectors enter; a set of none gives zeros.
    """
    steps = torch.arange(vectors.shape[1], device=vectors.device)
    present = steps < counts.to(vectors.device)[:, None]
    return normalize(normalize(vectors.float(), dim=2).where(present[..., None], 0.0).sum(1), dim=1)


def caption_blocks(split: Split, size: int) -> Iterator[np.ndarray]:
    """Rows (B,) of all captions in blocks of one length and at most `size`, the shortest first.

    Without padding, no product is computed in vain.
    """
    batches = in_batches(len(split.caption_ids))
    lengths = np.concatenate([split.captions(rows)[1].numpy() for rows in batches])
    order = np.argsort(lengths, kind="stable")
    changes = np.flatnonzero(np.diff(lengths[order])) + 1
    for same in np.split(order, changes):
        for rows in in_batches(len(same), size):
            yield same[rows]


def _score_blocks(
    model: PairModel, images: EmbeddedRegions, split: Split, device: torch.device, reduced: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Scores (N, M), in bf16 if reduced, and the captions' mean vectors (M, K)."""
    count, width, dim = images.vectors.shape
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
                block = model.score(images.vectors[part], images.counts[part], words, lengths)
            scores[part, rows] = block.cpu().numpy()
    return scores, means


def _shown(blocks: Iterator[np.ndarray], total: int) -> Iterator[np.ndarray]:
    """The same blocks, with a display of how far they are."""
    with Progress("scoring", total, "captions") as progress:
        for rows in blocks:
            yield rows
            progress.update(len(rows))
