"""What a model attended to in one image and one caption, in one form for all models that attend."""

from typing import NamedTuple

from torch import Tensor


class AttentionView(NamedTuple):
    """Of an image with R regions and a caption of T words, without padding. Weights sum to 1 over
    the regions where words attend to regions, else over the words; shares: None where all are
    equal."""

    score: float  # similarity of the two
    weights: Tensor  # (T, R) attention of words and regions
    word_weights: Tensor | None = None  # (T,) shares of the words in the score
    region_weights: Tensor | None = None  # (R,) shares of the regions in it
    order: Tensor | None = None  # (R,) the regions in the order they were read, if any
