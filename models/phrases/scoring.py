"""Scores of an image's proposals for phrases: each phrase only against its own image."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from pipeline.phrases.found import Searched
from pipeline.storage.features import FeatureFile

IMAGES = 16  # embedded at once: 1,600 proposals
PHRASES = 1024  # embedded at once


@torch.inference_mode()
def phrase_scores(
    network: Any,
    searched: Searched,
    proposals: FeatureFile,
    vectors: FeatureFile,
    device: torch.device,
) -> np.ndarray:
    """Inner products of Q phrases and their images' proposals: (Q, R) float32, -inf beyond them."""
    mode = network.training
    network.train(False)
    texts, codes = np.unique(searched.phrases["text"].to_numpy(), return_inverse=True)
    phrases = embedded_phrases(network, vectors, texts.tolist(), device)
    scores = np.full((len(searched), searched.boxes.shape[1]), -np.inf, np.float32)
    order = np.argsort(searched.images, kind="stable")
    edges = np.searchsorted(searched.images[order], np.arange(len(searched.boxes) + 1))
    names = list(dict.fromkeys(searched.phrases["image_id"]))
    for image, regions in enumerate(embedded_proposals(network, proposals, names, device)):
        own = order[edges[image] : edges[image + 1]]
        scores[own, : len(regions)] = (phrases[codes[own]] @ regions.T).cpu().numpy()
    network.train(mode)
    return scores


def embedded_phrases(
    network: Any, vectors: FeatureFile, texts: list[str], device: torch.device
) -> torch.Tensor:
    """Embeddings (U, K) of unique phrases."""
    rows = vectors.rows(texts)
    blocks = np.split(rows, range(PHRASES, len(rows), PHRASES))
    read = (torch.from_numpy(vectors.read(block)).float().to(device) for block in blocks)
    return torch.cat([network.embed_captions(block) for block in read])


def embedded_proposals(
    network: Any, proposals: FeatureFile, images: list[str], device: torch.device
) -> Iterator[torch.Tensor]:
    """Embeddings (P, K) of the proposals of one image after the other."""
    rows = proposals.rows(images)
    counts = proposals.read(rows, "counts")
    for start in range(0, len(rows), IMAGES):
        block = slice(start, start + IMAGES)
        read = torch.from_numpy(proposals.read(rows[block])).float()
        kept = [part[:count] for part, count in zip(read, counts[block], strict=True)]
        regions = network.embed_images(torch.cat(kept).to(device))
        yield from regions.split(counts[block].tolist())
