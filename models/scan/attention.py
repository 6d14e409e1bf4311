"""What SCAN attended to in a pair of image and caption."""

from functools import partial

import torch
from torch import Tensor

from models.attention.reader import open_reader
from models.attention.view import AttentionView
from models.scan.network import SCAN


@torch.no_grad()
def view(
    model: SCAN,
    features: Tensor,
    positions: Tensor,
    counts: Tensor,
    tokens: Tensor,
    lengths: Tensor,
) -> AttentionView:
    """The view of one image and one caption, batches of one as in SCAN.forward: features (1, R, D),
    positions (1, R, 4), tokens (1, T); counts and lengths (1,) on the CPU."""
    regions = model.embed_images(features, positions, counts)
    pair = regions, counts, model.embed_captions(tokens, lengths), lengths
    weights = model.attention(*pair)[0, 0, : int(lengths[0]), : int(counts[0])]
    return AttentionView(model.score(*pair).item(), weights)


attention = partial(open_reader, SCAN, view)
