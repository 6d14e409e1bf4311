"""Queries of the dual path: words in slots, images as pixels, both as at its scoring."""

from collections.abc import Callable, Sequence

import numpy as np
import torch

from models.backbone.image_cnn import pixels_of
from models.base.queries import Files, VectorQueries, open_trained
from models.base.texts import CaptionEmbedder, Tell, unknown_words, vocabulary_embedder
from models.dual_path.build import build
from models.dual_path.network import DualPath
from models.dual_path.slots import SlotRows
from pipeline.corpus.vocabulary import Vocabulary
from pipeline.inputs.words import WordInputs
from pipeline.storage.checkpoint import Checkpoint


def queries(files: Files, checkpoint: Checkpoint, device: torch.device) -> VectorQueries:
    """The trained model as something that can be searched with; its image CNN is its own.

    Args:
        files: its artefacts by the options of `stages.score`.
        checkpoint: its weights.
        device: where it runs.

    Raises:
        WorkbenchError: artefacts that are not those of the training.
    """
    read, network = open_trained(WordInputs, build, files, checkpoint)
    sizes = checkpoint.description.architecture
    slots = int(sizes["slots"])
    return VectorQueries(
        network,
        pixels_of(sizes),
        lambda words, _, tell: slot_ids(words, read.vocabulary, slots, tell),
        device,
    )


def slot_ids(
    words: Sequence[str], vocabulary: Vocabulary, slots: int, tell: Tell
) -> tuple[torch.Tensor]:
    """Word ids (1, S) of a query, begun in the first slot and clipped to the slots.

    Args:
        words: of the query.
        vocabulary: what reads them.
        slots: S.
        tell: is told of words that are left out.

    Raises:
        WorkbenchError: all are unknown.
    """
    unknown = unknown_words(words, vocabulary)
    if unknown:
        tell(f"not in the vocabulary, left out: {', '.join(unknown)}")
    ids = [word for word in vocabulary.encode(words) if word != Vocabulary.UNK]
    rows = SlotRows([ids], slots, "left")
    if rows.clipped:
        tell(f"clipped to the first {slots} words")
    return rows(np.array([0]))


def embedder(files: Files, checkpoint: Checkpoint, device: torch.device) -> CaptionEmbedder:
    """The trained model as something that embeds lists of words.

    Args:
        files: its artefacts by the options of `stages.score`.
        checkpoint: its weights.
        device: where it runs.

    Raises:
        WorkbenchError: artefacts that are not those of the training.
    """
    read, network = open_trained(WordInputs, build, files, checkpoint)
    slots = int(checkpoint.description.architecture["slots"])
    embed = from_slots(network.to(device), slots, device)
    return vocabulary_embedder(embed, read.vocabulary, device)


def from_slots(
    network: DualPath, slots: int, device: torch.device
) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """A function from tokens and lengths to embeddings, by slots as in scoring.

    Unknown words are left out, and the rest begins in the first slot.

    Args:
        network: on the device.
        slots: words of a caption that are read, at most.
        device: where the network is.

    Returns:
        A function from tokens (C, T) and lengths (C,) to (C, K).
    """

    def embed(tokens: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        pairs = zip(tokens.tolist(), lengths.tolist(), strict=True)
        known = [[w for w in words[:length] if w != Vocabulary.UNK] for words, length in pairs]
        (first,) = SlotRows(known, slots, "left")(np.arange(len(known)))
        return network.embed_captions(first.to(device))

    return embed
