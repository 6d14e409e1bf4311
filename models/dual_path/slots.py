"""Captions in a fixed number of slots, as a convolutional text network reads them (Zheng et al.
2020, section 3.2): unknown words are dropped, long captions clipped, and both are counted."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch

from pipeline.corpus.vocabulary import Vocabulary
from pipeline.inputs.files import Inputs
from pipeline.inputs.words import WordInputs
from pipeline.runtime.errors import WorkbenchError, listing


class SlotRows:
    """Word ids of M captions in S slots: rows (B,) to one tensor, int64 (B, S), alone in a tuple.

    Called, a source begins every caption in the first slot. `augmented` is for training: with
    alignment `shift` a caption of n words begins in one of its S - n + 1 possible slots, with
    `left` in the first. captions: M non-empty lists of word ids, clipped at the end to S, empty
    slots are 0; `clipped` counts them; dropped: number of words that encode_slots has left out.
    """

    def __init__(
        self,
        captions: Sequence[Sequence[int]],
        slots: int,
        alignment: str = "shift",
        dropped: int = 0,
    ) -> None:
        self.alignment, self.dropped = alignment, dropped
        self.lengths = np.fromiter((min(len(words), slots) for words in captions), np.int64)
        self.clipped = sum(len(words) > slots for words in captions)
        # half the memory of int64: 600,000 captions of 32 slots take 77 MB
        self.slots = np.zeros((len(captions), slots), np.int32)
        for row, words in enumerate(captions):
            self.slots[row, : self.lengths[row]] = words[:slots]

    def __call__(self, rows: np.ndarray) -> tuple[torch.Tensor]:
        return (torch.from_numpy(self.slots[rows].astype(np.int64)),)

    def augmented(self, rows: np.ndarray, generator: np.random.Generator) -> tuple[torch.Tensor]:
        """The same captions as training sees them; the generator alone decides the shifts."""
        if self.alignment == "left":
            return self(rows)
        width = self.slots.shape[1]
        leading = generator.integers(0, width - self.lengths[rows] + 1)
        # what is rolled in from the end is empty, as a caption is never shifted beyond it
        columns = (np.arange(width) - leading[:, None]) % width
        return (torch.from_numpy(self.slots[rows[:, None], columns].astype(np.int64)),)


def encode_slots(
    vocabulary: Vocabulary, captions: pd.DataFrame, slots: int, alignment: str = "shift"
) -> SlotRows:
    """The slots of M rows of the captions table, words outside the vocabulary dropped and counted;
    WorkbenchError for captions of which nothing is left."""
    encoded = [vocabulary.encode(words) for words in captions["tokens"]]
    known = [[word for word in words if word != Vocabulary.UNK] for words in encoded]
    markers = 2 if vocabulary.sentence_markers else 0
    pairs = zip(captions["caption_id"], known, strict=True)
    empty = [name for name, words in pairs if len(words) == markers]
    if empty:
        raise WorkbenchError(
            f"{len(empty)} captions have no word of the vocabulary: {listing(empty)}",
            "lower vocabulary.min_count, set vocabulary.known_words_only to false, or remove them",
        )
    dropped = sum(map(len, encoded)) - sum(map(len, known))
    return SlotRows(known, slots, alignment, dropped)


class SlotInputs(WordInputs):
    """One vector per image, and captions in slots; slots, alignment: as in SlotRows."""

    def __init__(
        self, files: Inputs, slots: int, alignment: str = "left", in_memory: bool = True
    ) -> None:
        super().__init__(files, in_memory)
        self.slots, self.alignment = slots, alignment

    def captions(self, table: pd.DataFrame) -> SlotRows:
        return encode_slots(self.vocabulary, table, self.slots, self.alignment)
