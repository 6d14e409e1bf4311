"""What several kinds of queries read and check."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from pipeline.corpus import load_captions
from pipeline.errors import WorkbenchError, listing
from pipeline.preprocessing import MAX_ASPECT
from pipeline.search import REMEDY
from pipeline.sources import TokenRows
from pipeline.vocabulary import Vocabulary


def check_aspect(image: Image.Image) -> None:
    """Raise WorkbenchError for an image much longer than wide: resized, it would fill memory."""
    if max(image.size) > MAX_ASPECT * min(image.size):
        raise WorkbenchError(f"the image is more than {MAX_ASPECT} times as long as wide")


def stored_word_ids(
    captions: Path, ids: Sequence[str], vocabulary: Vocabulary
) -> tuple[torch.Tensor, torch.Tensor]:
    """Word ids (M, T) and lengths (M,) of captions of the corpus.

    captions: its table. Raises WorkbenchError naming those that it does not have.
    """
    table = load_captions(captions).set_index("caption_id")["tokens"]
    lost = [name for name in ids if name not in table.index]
    if lost:
        raise WorkbenchError(f"{captions}: no caption {listing(lost, 5)}", REMEDY)
    rows = TokenRows([vocabulary.encode(words) for words in table[list(ids)]])
    return rows(np.arange(len(ids)))
