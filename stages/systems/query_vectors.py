"""Queries of models that embed one vector of an image and one of a caption's words or sentence."""

import importlib
from collections.abc import Sequence
from pathlib import Path

import torch
from PIL import Image

from pipeline.checkpoint import Checkpoint
from pipeline.feature_store import FeatureFile
from pipeline.graph import stage_paths
from pipeline.vocabulary import Vocabulary
from stages.systems import vectors, vse
from stages.systems.queries import Query
from stages.systems.query_texts import sentence_vector, word_ids

NETWORKS = {
    "cca": "models.cca:CCA",
    "two_branch": "models.two_branch:TwoBranch",
    "vse": "models.vse:VSE",
}


class VectorQueries:
    """A stages.systems.queries.QueryModel of cached features, and of a vocabulary or sentences."""

    def __init__(
        self, files: dict[str, Path], checkpoint: Checkpoint, device: torch.device
    ) -> None:
        self.features, self.device = FeatureFile(files["features"]), device
        self.texts: Vocabulary | FeatureFile
        if files["text"].is_dir():
            self.texts = Vocabulary.load(files["text"])
            checkpoint.require(vse.identity(self.texts, self.features))
        else:
            self.texts = FeatureFile(files["text"])
            checkpoint.require(vectors.identity(self.features, self.texts))
        module, kind = NETWORKS[checkpoint.description.model].split(":")
        network = checkpoint.build(getattr(importlib.import_module(module), kind))
        self.network = network.to(device)

    @torch.inference_mode()
    def of_words(self, words: Sequence[str], wordnet: Path | None) -> Query:
        """The query of a text."""
        if isinstance(self.texts, Vocabulary):
            first, *others = word_ids(words, self.texts)
        else:
            encoder = stage_paths("encode_sentences", ("encoder",))["encoder"]
            first, *others = sentence_vector(words, self.texts, encoder, wordnet)
        return Query(self.network.embed_captions(first.to(self.device), *others)[0].cpu().numpy())

    def of_image(self, image: Image.Image) -> Query:
        """The query of an image; WorkbenchError for another network than the corpus's."""
        from stages.systems.query_images import image_features  # torchvision takes seconds to load

        network = stage_paths("extract_image_features", ("network",))["network"]
        features = image_features(image, network, self.features, self.device)
        with torch.inference_mode():
            vectors = self.network.embed_images(features.to(self.device))
        return Query(vectors[0].cpu().numpy())
