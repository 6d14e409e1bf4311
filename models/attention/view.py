"""What a model attended to in one image and one caption, in one form for all models that attend."""

from typing import NamedTuple, Protocol

import torch


class AttentionView(NamedTuple):
    """Of an image with R regions and a caption of T words, without padding, on any device.

    Attributes:
        score: similarity of the two.
        weights: (T, R) of the words' regions, which sum to 1 over the regions where words attend to
            regions, over the words where regions attend to words.
        word_weights: (T,) shares of the words in the similarity, None where all have the same.
        region_weights: (R,) shares of the regions in it, None where all have the same.
        order: (R,) the regions from the first to the last that was read, None where none is before
            another.
    """

    score: float
    weights: torch.Tensor
    word_weights: torch.Tensor | None = None
    region_weights: torch.Tensor | None = None
    order: torch.Tensor | None = None


class Attending(Protocol):
    """A model with the attention of models.scan.network.SCAN."""

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

    def attention(
        self,
        regions: torch.Tensor,
        counts: torch.Tensor,
        words: torch.Tensor,
        lengths: torch.Tensor,
        /,
    ) -> torch.Tensor: ...


@torch.no_grad()
def scan_view(
    model: Attending,
    features: torch.Tensor,
    positions: torch.Tensor,
    counts: torch.Tensor,
    tokens: torch.Tensor,
    lengths: torch.Tensor,
) -> AttentionView:
    """The view of one image and one caption.

    Args:
        model: on the device of the features, positions and tokens.
        features: (1, R, D).
        positions: (1, R, 4) width, height, centre x, centre y as shares of the image.
        counts: (1,) regions, on the CPU.
        tokens: (1, T) word ids.
        lengths: (1,) words, on the CPU.
    """
    regions = model.embed_images(features, positions, counts)
    pair = regions, counts, model.embed_captions(tokens, lengths), lengths
    weights = model.attention(*pair)[0, 0, : int(lengths[0]), : int(counts[0])]
    return AttentionView(model.score(*pair).item(), weights)
