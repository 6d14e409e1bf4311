"""Queries of the dual path: words in slots, images as pixels, both as at its scoring."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch

from models.backbone.image_cnn import pixels_of
from models.base.queries import Files, VectorQueries, open_trained
from models.base.texts import CaptionEmbedder, Tell, unknown_words, vocabulary_embedder
from models.dual_path.network import build
from models.dual_path.slots import SlotRows
from pipeline.corpus.vocabulary import Vocabulary
from pipeline.inputs.words import WordInputs
from pipeline.storage.checkpoint import Checkpoint


def queries(files: Files, checkpoint: Checkpoint, device: torch.device) -> VectorQueries:
    """The trained model as something that can be searched with; its image CNN is its own."""
    read, network = open_trained(WordInputs, build, files, checkpoint)
    sizes = checkpoint.description.architecture

    def slots_of(words: Sequence[str], _: Path | None, tell: Tell) -> tuple[torch.Tensor]:
        unknown = unknown_words(words, read.vocabulary)
        if unknown:
            tell(f"not in the vocabulary, left out: {', '.join(unknown)}")
        rows = slots_from_left([words], read.vocabulary, int(sizes["slots"]))
        if rows.clipped:
            tell(f"clipped to the first {sizes['slots']} words")
        return rows(np.array([0]))

    return VectorQueries(network, pixels_of(sizes), slots_of, device)


def embedder(files: Files, checkpoint: Checkpoint, device: torch.device) -> CaptionEmbedder:
    read, network = open_trained(WordInputs, build, files, checkpoint)
    rows_of = partial(slots_from_left, slots=int(checkpoint.description.architecture["slots"]))
    return vocabulary_embedder(network.to(device), read.vocabulary, device, rows_of)


def slots_from_left(
    captions: Sequence[Sequence[str]], vocabulary: Vocabulary, slots: int
) -> SlotRows:
    """Captions as in scoring: unknown words left out, the first word in the first slot."""
    encoded = (vocabulary.encode(words) for words in captions)
    known = [[word for word in words if word != Vocabulary.UNK] for words in encoded]
    return SlotRows(known, slots, "left")
