"""What SCAN attended to in a pair of image and caption."""

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from models.attention.reader import AttentionView, open_reader
from models.scan.network import SCAN


@torch.no_grad()
def view(model: SCAN, regions: Sequence[Tensor], caption: Sequence[Tensor]) -> AttentionView:
    """The view of one image and one caption, batches of one as in SCAN.forward: features (1, R, D),
    positions (1, R, 4) and counts (1,); tokens (1, T) and lengths (1,)."""
    counts, lengths = regions[2], caption[1]
    pair = model.embed_images(*regions), counts, model.embed_captions(*caption), lengths
    weights = model.attention(*pair)[0, 0, : int(lengths[0]), : int(counts[0])]
    return AttentionView(model.score(*pair).item(), weights)


attention = partial(open_reader, SCAN, view)
