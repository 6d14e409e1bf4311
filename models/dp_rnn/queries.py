"""How DP-RNN compares the two sides of a query: every pair is scored in full, with vectors as
models.dp_rnn.scoring keeps them."""

from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import normalize

from models.attention.queries import Embedded, RegionQueries
from models.dp_rnn.network import DPRNN

BESIDE = ("detector",)


def image_vectors(model: DPRNN, images: Embedded) -> Tensor:
    """Unit vectors (N, K)."""
    return normalize(model.image_vectors(images[0]).float(), dim=1)


def caption_vectors(model: DPRNN, captions: Embedded) -> Tensor:
    """Unit vectors (M, K)."""
    return normalize(model.caption_vectors(captions[0]).float(), dim=1)


def score(model: DPRNN, images: Embedded, captions: Embedded) -> Tensor:
    """Similarities (N, M), with recurrence where the model has it."""
    (regions, counts), (words, lengths) = images, captions
    if not model.use_recurrence:
        return model.score(regions, words)
    every = torch.arange(len(counts), device=regions[0].lengths.device).expand(len(lengths), -1)
    return model.score_selected(regions, words, every).T


queries = partial(RegionQueries, DPRNN, image_vectors, caption_vectors, score)
