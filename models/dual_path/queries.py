"""Queries of the dual path: words in slots, images as pixels, both as at its scoring."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from models.backbone.image_cnn import crops_of
from models.base.queries import Files, Query
from models.base.texts import CaptionEmbedder, vocabulary_embedder
from models.dual_path.build import build
from models.dual_path.network import DualPath
from models.dual_path.slots import SlotRows
from pipeline.corpus.images import check_aspect
from pipeline.corpus.vocabulary import Vocabulary
from pipeline.inputs.words import identity
from pipeline.runtime.process import say
from pipeline.search.index import check_words
from pipeline.storage.checkpoint import Checkpoint
from pipeline.storage.features import FeatureFile


class DualPathQueries:
    """A models.base.queries.QueryModel; the image CNN is part of the checkpoint.

    Args:
        files: its artefacts by the options of `stages.score`.
        checkpoint: its weights.
        device: where it runs.

    Raises:
        WorkbenchError: artefacts that are not those of the training.
    """

    def __init__(
        self, files: dict[str, Path], checkpoint: Checkpoint, device: torch.device
    ) -> None:
        self.vocabulary, self.device = Vocabulary.load(files["text"]), device
        checkpoint.require(identity(self.vocabulary, FeatureFile(files["features"])))
        self.network = checkpoint.build(build).to(device)
        self.sizes = checkpoint.description.architecture

    @torch.inference_mode()
    def of_words(
        self, words: Sequence[str], wordnet: Path | None, tell: Callable[[str], None] = say
    ) -> Query:
        """The query of a text, begun in the first slot and clipped to the slots.

        Args:
            words: of the text.
            wordnet: folder of WordNet's files, None to look for them.
            tell: is told of words that are not known.
        """
        known = [Vocabulary.UNK not in self.vocabulary.encode([word]) for word in words]
        unknown = check_words(words, known, "the vocabulary")
        if unknown:
            tell(f"not in the vocabulary, left out: {', '.join(unknown)}")
        ids = [word for word in self.vocabulary.encode(words) if word != Vocabulary.UNK]
        slots = SlotRows([ids], int(self.sizes["slots"]), "left")
        if slots.clipped:
            tell(f"clipped to the first {self.sizes['slots']} words")
        (first,) = slots(np.array([0]))
        return Query(self.network.embed_captions(first.to(self.device))[0].cpu().numpy())

    @torch.inference_mode()
    def of_image(self, image: Image.Image) -> Query:
        """The query of an image, the mean of it and its mirror image as the network says."""
        check_aspect(image)
        pixels = torch.from_numpy(crops_of(self.sizes).crops(image)).to(self.device)
        return Query(self.network.embed_images(pixels)[0].cpu().numpy())


def queries(files: Files, checkpoint: Checkpoint, device: torch.device) -> DualPathQueries:
    """The trained model as something that can be searched with.

    Args:
        files: its artefacts by the options of `stages.score`.
        checkpoint: its weights.
        device: where it runs.

    Raises:
        WorkbenchError: artefacts that are not those of the training.
    """
    return DualPathQueries(files, checkpoint, device)


def embedder(files: Files, checkpoint: Checkpoint, device: torch.device) -> CaptionEmbedder:
    """The trained model as something that embeds lists of words.

    Args:
        files: its artefacts by the options of `stages.score`.
        checkpoint: its weights.
        device: where it runs.

    Raises:
        WorkbenchError: artefacts that are not those of the training.
    """
    vocabulary = Vocabulary.load(files["text"])
    checkpoint.require(identity(vocabulary, FeatureFile(files["features"])))
    network = checkpoint.build(build).to(device)
    slots = int(checkpoint.description.architecture["slots"])
    return vocabulary_embedder(from_slots(network, slots, device), vocabulary, device)


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
