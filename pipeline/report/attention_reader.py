"""From ids of an image and a caption to what a model attended to.

`models.attention.pictures` gives the model's `attention`; `pipeline.report.attention` draws what
comes out, a `PairAttention`.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from pipeline.corpus.tables import in_split, load_captions
from pipeline.corpus.vocabulary import Vocabulary
from pipeline.features.data import CaptionWords, RegionRows, RetrievalData
from pipeline.features.regions.boxes import require_boxes
from pipeline.features.split import Regions, Words, to_device
from pipeline.report.attention_pairs import OPTIONAL, PairAttention
from pipeline.runtime.errors import WorkbenchError

View = Callable[[Regions, Words], Any]  # of one image and one caption to models.base.AttentionView


class AttentionReader:
    """Looks at any image and any caption of a split, of regions with boxes, through a model.

    Args:
        view: A model's `attention`.
        data: What the model reads: regions and words.
        split: train, val or test.
        device: Of the model.

    Raises:
        WorkbenchError: The regions have no boxes.
    """

    def __init__(self, view: View, data: RetrievalData, split: str, device: torch.device) -> None:
        require_boxes(data.images.file, "a picture of attention")
        self.view = view
        self.split = data.split(split)
        assert isinstance(self.split.images, RegionRows)
        assert isinstance(data.captions, CaptionWords)
        self.regions = self.split.images
        self.captions = data.captions
        tokens = in_split(load_captions(data.files.captions), split)["tokens"]
        self.words = [shown_words(words, data.captions.vocabulary) for words in tokens]
        self.device = device

    def __call__(self, image_id: str, caption_id: str) -> PairAttention:
        """The attention in a pair of the split.

        Args:
            image_id: Of the split.
            caption_id: Of the split; it need not describe the image.

        Returns:
            What the model attended to.

        Raises:
            WorkbenchError: The split does not have one of them.
        """
        caption = _place(self.split.caption_ids, caption_id, "caption")
        read = self.split.captions(np.array([caption]))
        assert isinstance(read, Words)
        return self._pair(image_id, caption_id, self.words[caption], read)

    def of_words(self, image_id: str, words: Sequence[str]) -> PairAttention:
        """The attention in an image and the words of any text.

        Args:
            image_id: Of the split.
            words: Of the text, in its order.

        Returns:
            The pair; the id of its caption is "query".

        Raises:
            WorkbenchError: The split does not have the image.
        """
        shown = shown_words(words, self.captions.vocabulary)
        encoded = self.captions.encode([words])
        assert isinstance(encoded, Words)
        return self._pair(image_id, "query", shown, encoded)

    @torch.inference_mode()
    def _pair(
        self,
        image_id: str,
        caption_id: str,
        words: list[str],
        caption: Words,
    ) -> PairAttention:
        row = np.array([_place(self.split.image_ids, image_id, "image")])
        regions = to_device(self.regions(row), self.device)
        view = self.view(regions, to_device(caption, self.device))
        file = self.regions.file
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
        """The image that a caption describes.

        Args:
            caption_id: Of the split.

        Returns:
            Id of the image.

        Raises:
            WorkbenchError: The split does not have the caption.
        """
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
