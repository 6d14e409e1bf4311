"""What a model attended to in an image and a caption, as plain numbers with words and boxes."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class PairAttention:
    """An image with R regions and a caption of T words.

    words: T, those that the model does not know in brackets; weights: (T, R), word_weights: (T,)
    or None, order: (R,) or None, score: as in models.attention_views.AttentionView; boxes: (R, 4)
    x1, y1, x2, y2 in pixels of an image of `size`, width and height.
    """

    image_id: str
    caption_id: str
    words: list[str]
    score: float
    weights: Floats
    boxes: Floats
    size: tuple[int, int]
    word_weights: Floats | None = None
    order: npt.NDArray[np.int64] | None = None
