"""From ids of an image and a caption to what a model, given as a function, attended to."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from pipeline.corpus.vocabulary import Vocabulary
from pipeline.inputs.batches import Split
from pipeline.inputs.regions import RegionRows
from pipeline.inputs.sources import TokenRows
from pipeline.report.attention_pairs import OPTIONAL, PairAttention
from pipeline.runtime.errors import WorkbenchError

# features (1, R, D), positions (1, R, 4), counts (1,), and word ids (1, T), lengths (1,) to a
# models.attention.reader.AttentionView
View = Callable[..., Any]


class AttentionReader:
    """Looks at any image and any caption of a split, of regions with boxes, through a model.

    Args:
        view: the model: from features (1, R, D), positions (1, R, 4), counts (1,), word ids (1, T)
            and lengths (1,) to what it attends to.
        split: the images' regions and the captions.
        words: of each caption, those that the model does not know in brackets.
        vocabulary: of the model.
        device: on which it computes.
    """

    def __init__(
        self,
        view: View,
        split: Split,
        words: Sequence[list[str]],
        vocabulary: Vocabulary,
        device: torch.device,
    ) -> None:
        assert isinstance(split.images, RegionRows)
        self.view = view
        self.split = split
        self.regions = split.images
        self.words = words
        self.vocabulary = vocabulary
        self.device = device

    def __call__(self, image_id: str, caption_id: str) -> PairAttention:
        """The attention in a pair; WorkbenchError for ids that the split does not have."""
        caption = _place(self.split.caption_ids, caption_id, "caption")
        tokens, lengths = self.split.captions(np.array([caption]))
        return self._pair(image_id, caption_id, self.words[caption], tokens, lengths)

    def of_words(self, image_id: str, words: Sequence[str]) -> PairAttention:
        """The attention in an image and the words of any text.

        Args:
            image_id: of the split.
            words: of the text, in its order.

        Returns:
            The pair; the id of its caption is "query".

        Raises:
            WorkbenchError: the split does not have the image.
        """
        tokens, lengths = TokenRows([self.vocabulary.encode(words)])(np.array([0]))
        shown = shown_words(words, self.vocabulary)
        return self._pair(image_id, "query", shown, tokens, lengths)

    @torch.inference_mode()
    def _pair(
        self,
        image_id: str,
        caption_id: str,
        words: list[str],
        tokens: torch.Tensor,
        lengths: torch.Tensor,
    ) -> PairAttention:
        row = np.array([_place(self.split.image_ids, image_id, "image")])
        regions = self.regions(row).to(self.device)
        view = self.view(regions.tensors, (tokens.to(self.device), lengths))
        file = self.regions.features
        stored = self.regions.rows[row]
        width, height = file.read(stored, "sizes")[0].tolist()
        optional = {name: getattr(view, name) for name in OPTIONAL}
        return PairAttention(
            image_id=image_id,
            caption_id=caption_id,
            words=words,
            score=float(view.score),
            weights=view.weights.float().cpu().numpy(),
            boxes=file.read(stored, "boxes")[0][: int(regions.counts[0])],
            size=(width, height),
            **{name: None if x is None else x.cpu().numpy() for name, x in optional.items()},
        )

    def image_of(self, caption_id: str) -> str:
        """The image that a caption describes; WorkbenchError when the split does not have it."""
        caption = _place(self.split.caption_ids, caption_id, "caption")
        return self.split.image_ids[self.split.described[caption]]


def shown_words(words: Sequence[str], vocabulary: Vocabulary) -> list[str]:
    """The words of a caption as a picture shows them.

    Args:
        words: in their order.
        vocabulary: of the model.

    Returns:
        Those that the model does not know in brackets, or left out where it leaves them out.
    """
    known = [f"({word})" if Vocabulary.UNK in vocabulary.encode([word]) else word for word in words]
    markers = vocabulary.tokens[Vocabulary.START], vocabulary.tokens[Vocabulary.END]
    return [markers[0], *known, markers[1]] if vocabulary.sentence_markers else known


def _place(ids: Sequence[str], name: str, kind: str) -> int:
    try:
        return ids.index(name)
    except ValueError:
        raise WorkbenchError(
            f"{kind} {name!r}: not in the split; its {len(ids):,} {kind}s begin with {ids[0]}"
        ) from None
