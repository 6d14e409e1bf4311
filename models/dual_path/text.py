"""The text path (Zheng et al. 2020, section 3.2): captions in a fixed number of slots, and a
residual network over their words, which mirrors an image ResNet block for block.

Words outside the vocabulary are dropped and long captions clipped, as in the paper; both are
counted, because they change what is compared.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn
from torch.nn import functional

from pipeline.corpus.vocabulary import Vocabulary
from pipeline.features.data import CaptionWords
from pipeline.runtime.errors import WorkbenchError, listing

# blocks per stage and how much wider a block's output is than its width (He et al. 2016, table 1)
STAGES = {
    "resnet18": ((2, 2, 2, 2), 1),
    "resnet50": ((3, 4, 6, 3), 4),
    "resnet152": ((3, 8, 36, 3), 4),
}


# ---- captions in slots


class SlotRows:
    """Word ids of M captions in S slots: rows (B,) to int64 (B, S), 0 where a slot is empty.

    Args:
        captions: M lists of word ids, clipped at the end to S.
        slots: S.
        alignment: Where a caption of n words begins in training: shift, in one of its S - n + 1
            possible slots, each equally likely; or left, in the first, as always in scoring.
        dropped: How many words were left out before, by whoever made the lists.

    Attributes:
        clipped: How many captions had more than S words.
    """

    def __init__(
        self,
        captions: Sequence[Sequence[int]],
        slots: int,
        alignment: str = "shift",
        dropped: int = 0,
    ) -> None:
        self.alignment = alignment
        self.dropped = dropped
        self.lengths = np.fromiter((min(len(words), slots) for words in captions), np.int64)
        self.clipped = sum(len(words) > slots for words in captions)
        # half the memory of int64: 600,000 captions of 32 slots take 77 MB
        self.slots = np.zeros((len(captions), slots), np.int32)
        for row, words in enumerate(captions):
            self.slots[row, : self.lengths[row]] = words[:slots]

    def __call__(self, rows: np.ndarray, generator: np.random.Generator | None = None) -> Tensor:
        slots = self.slots[rows]
        if generator is not None and self.alignment == "shift":
            width = slots.shape[1]
            leading = generator.integers(0, width - self.lengths[rows] + 1)
            # what is rolled in from the end is empty, as a caption is never shifted beyond it
            columns = (np.arange(width) - leading[:, None]) % width
            slots = np.take_along_axis(slots, columns, axis=1)
        return torch.from_numpy(slots.astype(np.int64))


class CaptionSlots(CaptionWords):
    """Captions in slots; words outside the vocabulary are left out.

    Args:
        folder: Of the vocabulary.
        slots: How many words of a caption are read.
        alignment: As for SlotRows, of the captions of the corpus.
    """

    def __init__(self, folder: Path, slots: int, alignment: str) -> None:
        super().__init__(folder)
        self.slots = slots
        self.alignment = alignment

    def source(self, table: pd.DataFrame) -> SlotRows:
        """The slots of M rows of the captions table; WorkbenchError naming captions of which
        nothing is left."""
        captions = self.known_ids(table["tokens"].tolist())
        markers = 2 if self.vocabulary.sentence_markers else 0
        pairs = zip(table["caption_id"], captions, strict=True)
        empty = [name for name, words in pairs if len(words) == markers]
        if empty:
            raise WorkbenchError(
                f"{len(empty)} captions have no word of the vocabulary: {listing(empty)}",
                "lower vocabulary.min_count, set vocabulary.known_words_only to false, or remove "
                "them",
            )
        words = sum(map(len, table["tokens"])) + markers * len(table)
        dropped = words - sum(map(len, captions))
        return SlotRows(captions, self.slots, self.alignment, dropped)

    def known_ids(self, texts: Sequence[Sequence[str]]) -> list[list[int]]:
        """The ids of the words of texts, those outside the vocabulary left out."""
        encoded = (self.vocabulary.encode(words) for words in texts)
        return [[word for word in words if word != Vocabulary.UNK] for words in encoded]

    def notes(self, words: Sequence[str], unknown: Sequence[str]) -> list[str]:
        """That unknown words are left out, and what does not fit into the slots.

        Args:
            words: Of the text.
            unknown: Those that are not in the vocabulary, each once.

        Returns:
            A sentence each, none where the whole text is read.
        """
        notes = []
        if unknown:
            notes.append(f"not in the vocabulary, left out: {', '.join(unknown)}")
        if len(self.known_ids([words])[0]) > self.slots:
            notes.append(f"clipped to the first {self.slots} words")
        return notes

    def encode(self, texts: Sequence[Sequence[str]]) -> Tensor:
        """The slots of texts, as in scoring: the first word in the first slot."""
        rows = SlotRows(self.known_ids(texts), self.slots)
        return rows(np.arange(len(texts)))


# ---- the network


class TextCNN(nn.Module):
    """Word lookup and residual blocks of 1x2 convolutions (Zheng et al. 2020, section 3.2).

    The paper's 1x1 convolution over one-hot words is a lookup. Then come four stages of blocks, as
    many as the image network of the same name has: two 1x2 convolutions (resnet18) or bottlenecks
    of 1x1, 1x2, 1x1. As there, each stage after the first halves the slots and doubles the width.

    Args:
        vocabulary_size: V; word 0 is an empty slot.
        word_dim: Width of a word vector (300 in the paper).
        depth: A key of STAGES.
        width: Of the first stage (64 as in the image networks).
        pool: Over the slots that are left: mean (as in the paper) or max (as in its code).

    Attributes:
        outputs: D of the result, 8 * width, times 4 for bottlenecks.
    """

    def __init__(
        self, vocabulary_size: int, word_dim: int, depth: str, width: int, pool: str = "max"
    ) -> None:
        super().__init__()
        counts, expansion = STAGES[depth]
        self.pool = pool
        self.outputs = 8 * width * expansion
        self.words = nn.Embedding(vocabulary_size, word_dim, padding_idx=0)
        blocks = []
        inputs = word_dim
        for stage, count in enumerate(counts):
            for block in range(count):
                stride = 2 if stage and not block else 1
                blocks.append(TextBlock(inputs, width << stage, expansion, stride))
                inputs = (width << stage) * expansion
        self.blocks = nn.Sequential(*blocks)
        nn.init.xavier_uniform_(self.words.weight)  # the paper's random initialisation
        with torch.no_grad():
            self.words.weight[0].zero_()
        for module in self.modules():
            if isinstance(module, nn.Conv1d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, slots: Tensor) -> Tensor:
        """Word ids (B, S), 0 where a slot is empty, to (B, outputs)."""
        maps = self.blocks(self.words(slots))
        return maps.amax(1) if self.pool == "max" else maps.mean(1)


class TextBlock(nn.Module):
    """One residual block: (B, S, inputs) to (B, S / stride rounded up, width * expansion).

    The shortcut is the identity where the shapes agree, else a 1x1 convolution.

    Args:
        inputs: Channels that come in.
        width: Channels of all convolutions but the last, which has `expansion` times as many.
        expansion: 1 for two 1x2 convolutions, otherwise 1x1, 1x2, 1x1 around a narrower middle.
        stride: Of the 1x2 convolution that shortens the slots.
    """

    def __init__(self, inputs: int, width: int, expansion: int, stride: int) -> None:
        super().__init__()
        outputs = width * expansion
        steps: list[nn.Module]
        if expansion == 1:
            steps = [
                Convolution(inputs, width, 2, stride),
                nn.ReLU(),
                Convolution(width, outputs, 2),
            ]
        else:
            steps = [
                Convolution(inputs, width, 1),
                nn.ReLU(),
                Convolution(width, width, 2, stride),
                nn.ReLU(),
                Convolution(width, outputs, 1),
            ]
        self.body = nn.Sequential(*steps)
        is_same = inputs == outputs and stride == 1
        self.shortcut = nn.Identity() if is_same else Convolution(inputs, outputs, 1, stride)

    def forward(self, maps: Tensor) -> Tensor:
        """(B, S, inputs) to (B, S / stride rounded up, outputs)."""
        return functional.relu(self.body(maps) + self.shortcut(maps))


class Convolution(nn.Sequential):
    """A 1 x kernel convolution with batch norm, zeros behind the last slot.

    All windows in one matrix product take half the time that torch's convolution takes on a CPU.

    Args:
        inputs: Channels that come in.
        outputs: Channels that go out.
        kernel: Slots that are seen at once, 1 or 2.
        stride: Slots from one window to the next.
    """

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int = 1) -> None:
        layer = nn.Conv1d(inputs, outputs, kernel, stride, bias=False)
        super().__init__(layer, nn.BatchNorm1d(outputs))
        self.kernel = kernel
        self.stride = stride

    def forward(self, maps: Tensor) -> Tensor:
        """(B, S, inputs) to (B, S / stride rounded up, outputs)."""
        layer, norm = self
        padded = functional.pad(maps, (0, 0, 0, self.kernel - 1))
        windows = padded.unfold(1, self.kernel, self.stride).flatten(2)
        rows = functional.linear(windows, layer.weight.flatten(1))  # type: ignore[operator]
        result: Tensor = norm(rows.flatten(0, 1)).view_as(rows)
        return result
