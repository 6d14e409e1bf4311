"""Trained models as functions from lists of words to embeddings, for analyses that change captions.

To add a model with a vocabulary, name its network here and what it was trained with.
"""

from collections.abc import Callable

import numpy as np
import torch

from models.dual_path import DualPath
from models.vse import VSE
from pipeline.analysis.discriminative import CaptionEmbedder, vocabulary_embedder
from pipeline.checkpoint import read_checkpoint
from pipeline.errors import WorkbenchError
from pipeline.feature_store import FeatureFile
from pipeline.graph import stage_paths
from pipeline.slots import SlotRows
from pipeline.vocabulary import Vocabulary
from stages.systems import dual_path_inputs, dual_path_network, vse

Network = DualPath | VSE
NETWORKS: dict[str, tuple[Callable[..., Network], Callable[..., dict[str, str]]]] = {
    "dual_path": (dual_path_network.build, dual_path_inputs.identity),
    "vse": (VSE, vse.identity),
}


def caption_embedder(name: str, device: torch.device) -> tuple[CaptionEmbedder, str]:
    """The embedder of a model that reads words by a vocabulary, and the digest of its weights.

    Raises WorkbenchError for other models, and for files that are not those of the training.
    """
    if name not in NETWORKS:
        raise WorkbenchError(
            f"words of captions can be left out for {', '.join(sorted(NETWORKS))}, not for {name}",
            "choose other analyses with --only",
        )
    build, identity = NETWORKS[name]
    files = stage_paths("score", ("text", "features", "checkpoint"), name)
    checkpoint = read_checkpoint(files["checkpoint"], name)
    vocabulary = Vocabulary.load(files["text"])
    checkpoint.require(identity(vocabulary, FeatureFile(files["features"])))
    network = checkpoint.build(build).to(device)
    embed: Callable[..., torch.Tensor] = network.embed_captions
    if isinstance(network, DualPath):
        embed = from_slots(network, int(checkpoint.description.architecture["slots"]), device)
    return vocabulary_embedder(embed, vocabulary, device), checkpoint.sha256


def from_slots(
    network: DualPath, slots: int, device: torch.device
) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """A function from tokens (C, T) and lengths (C,) to embeddings (C, K), by slots as in scoring:
    unknown words are left out, and the rest begins in the first slot."""

    def embed(tokens: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        pairs = zip(tokens.tolist(), lengths.tolist(), strict=True)
        known = [[w for w in words[:length] if w != Vocabulary.UNK] for words, length in pairs]
        (first,) = SlotRows(known, slots, "left")(np.arange(len(known)))
        return network.embed_captions(first.to(device))

    return embed
