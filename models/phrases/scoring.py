"""Scores of an image's proposals for phrases: each phrase only against its own image."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from models.base.scoring import evaluating, in_batches
from pipeline.inputs.sources import FeatureRows
from pipeline.phrases.found import Searched
from pipeline.storage.features import FeatureFile

IMAGES = 16  # embedded at once: 1,600 proposals
VECTORS = 1024  # embedded at once


def phrase_scores(
    network: Any,
    searched: Searched,
    proposals: FeatureFile,
    vectors: FeatureFile,
    device: torch.device,
) -> np.ndarray:
    """Inner products of Q phrases and their images' proposals: (Q, R) float32, -inf beyond them."""
    texts, codes = np.unique(searched.phrases["text"].to_numpy(), return_inverse=True)
    scores = np.full((len(searched), searched.boxes.shape[1]), -np.inf, np.float32)
    order = np.argsort(searched.images, kind="stable")
    edges = np.searchsorted(searched.images[order], np.arange(len(searched.boxes) + 1))
    names = list(dict.fromkeys(searched.phrases["image_id"]))
    with evaluating(network):
        rows = FeatureRows(vectors, texts.tolist())
        phrases = embedded(network.embed_captions, rows, len(texts), device)
        for image, regions in enumerate(embedded_proposals(network, proposals, names, device)):
            members = order[edges[image] : edges[image + 1]]
            scores[members, : len(regions)] = (phrases[codes[members]] @ regions.T).cpu().numpy()
    return scores


def embedded(
    embed: Callable[..., torch.Tensor], vectors: FeatureRows, count: int, device: torch.device
) -> torch.Tensor:
    """Embeddings (N, K) of N rows of vectors."""
    return torch.cat([embed(vectors(rows).to(device)) for rows in in_batches(count, VECTORS)])


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
