"""Queries of VSE: image features and word ids."""

import torch

from models.base.queries import Files, VectorQueries, cached_features
from models.base.texts import CaptionEmbedder, vocabulary_embedder, word_ids
from models.vse.network import VSE
from pipeline.corpus.vocabulary import Vocabulary
from pipeline.inputs.words import identity
from pipeline.storage.checkpoint import Checkpoint
from pipeline.storage.features import FeatureFile

BESIDE = ("image_network",)


def queries(files: Files, checkpoint: Checkpoint, device: torch.device) -> VectorQueries:
    """The trained model as something that can be searched with.

    Args:
        files: its artefacts by the options of `stages.score`.
        checkpoint: its weights.
        device: where it runs.

    Raises:
        WorkbenchError: artefacts that are not those of the training.
    """
    vocabulary, features = Vocabulary.load(files["text"]), FeatureFile(files["features"])
    checkpoint.require(identity(vocabulary, features))
    network = checkpoint.build(VSE)
    return VectorQueries(
        network,
        cached_features(files["image_network"], features, device),
        lambda words, _, tell: word_ids(words, vocabulary, tell),
        device,
    )


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
    network = checkpoint.build(VSE).to(device)
    return vocabulary_embedder(network.embed_captions, vocabulary, device)
