"""From a query to its embedding: a trained model, checked against what it was trained with, so that
a query lands in the space of the stored embeddings. Paths are those of the commands in dvc.yaml."""

import importlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from pipeline.checkpoint import read_checkpoint
from pipeline.errors import WorkbenchError
from pipeline.feature_store import FeatureFile
from pipeline.graph import stage_paths
from pipeline.vocabulary import Vocabulary
from stages.systems import vectors, vse
from stages.systems.query_texts import sentence_vector, word_ids

NETWORKS = {
    "cca": "models.cca:CCA",
    "two_branch": "models.two_branch:TwoBranch",
    "vse": "models.vse:VSE",
}
FILES = ("images", "captions", "features", "text", "checkpoint", "output")


class QueryModel:
    """A model that embeds queries, read as its training read captions and images.

    files: its artefacts, by the options of `stages.score`; checkpoint: its weights; features: the
    stored features of the images. Raises WorkbenchError for an unknown name, and for files that
    are missing, damaged, or not those of the training.
    """

    def __init__(self, name: str, device: torch.device) -> None:
        if name not in NETWORKS:
            raise WorkbenchError(f"model {name!r}: allowed are {', '.join(sorted(NETWORKS))}")
        self.name, self.device, self.files = name, device, stage_paths("score", FILES, name)
        self.checkpoint = read_checkpoint(self.files["checkpoint"], name)
        self.features, text = FeatureFile(self.files["features"]), self.files["text"]
        self._texts: Vocabulary | FeatureFile
        if text.is_dir():
            self._texts = Vocabulary.load(text)
            self.checkpoint.require(vse.identity(self._texts, self.features))
        else:
            self._texts = FeatureFile(text)
            self.checkpoint.require(vectors.identity(self.features, self._texts))
        module, kind = NETWORKS[name].split(":")
        network = self.checkpoint.build(getattr(importlib.import_module(module), kind))
        self._network = network.to(device)

    def embed_words(self, words: Sequence[str], wordnet: Path | None = None) -> np.ndarray:
        """The embedding (K,) of the words of a text; unknown ones are named on standard error.

        wordnet: as in pipeline.sentences.encoder.read_encoder. Raises WorkbenchError when no word
        is known.
        """
        if isinstance(self._texts, Vocabulary):
            first, *others = word_ids(words, self._texts)
        else:
            encoder = stage_paths("encode_sentences", ("encoder",))["encoder"]
            first, *others = sentence_vector(words, self._texts, encoder, wordnet)
        with torch.inference_mode():
            return self._network.embed_captions(first.to(self.device), *others)[0].cpu().numpy()

    def embed_image(self, features: torch.Tensor) -> np.ndarray:
        """The embedding (K,) of an image from its features (1, D)."""
        with torch.inference_mode():
            return self._network.embed_images(features.to(self.device))[0].cpu().numpy()
