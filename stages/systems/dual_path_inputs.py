"""Inputs of the dual path: features or pixels, captions in slots, and the network behind both."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from models.dual_path import DualPath
from pipeline.batches import Split, read_split
from pipeline.checkpoint import feature_identity
from pipeline.corpus import load_images
from pipeline.feature_store import FeatureFile
from pipeline.pixels import PixelRows, pixel_preprocessing
from pipeline.slots import encode_slots
from pipeline.sources import FeatureRows, feature_moments
from pipeline.vocabulary import Vocabulary, load_word_vectors
from stages.systems import Inputs


@dataclass(frozen=True)
class Reader:
    """Splits with images as features or as pixels, and captions in slots."""

    inputs: Inputs
    vocabulary: Vocabulary
    architecture: Mapping[str, Any]
    slots: int
    alignment: str

    def features(self, name: str, features: FeatureFile) -> Split:
        """A split with the cached features of its images."""
        return self._split(name, partial(FeatureRows, features))

    def pixels(self, name: str, resize: int = 0, crop: int = 0, **options: Any) -> Split:
        """A split with pixels; 0: resized and cut as for the cached features.

        options: of pipeline.pixels.PixelRows.
        """
        sizes = resize or self.architecture["image_resize"], crop or self.architecture["image_crop"]
        crops = pixel_preprocessing(self.architecture["image_model"], *sizes)
        table = load_images(self.inputs.images)
        return self._split(name, lambda ids: PixelRows(table, ids, crops, **options))

    def _split(self, name: str, images: Any) -> Split:
        captions = partial(
            encode_slots, self.vocabulary, slots=self.slots, alignment=self.alignment
        )
        return read_split(name, self.inputs.images, self.inputs.captions, images, captions)


def prepare_weights(model: DualPath, own: Any, inputs: Inputs, train: Split) -> None:
    """What first weights take from the data: word vectors, and the moments of the features."""
    if own.word_vectors == "pretrained":
        model.initialise_words(torch.from_numpy(load_word_vectors(inputs.text, own.word_dim)))
    if own.standardise_images:
        assert isinstance(train.images, FeatureRows)
        model.standardise_images(*feature_moments(train.images))


def identity(vocabulary: Vocabulary, features: FeatureFile) -> dict[str, str]:
    """What the weights cannot be used without."""
    return {"vocabulary_sha256": vocabulary.sha256} | feature_identity(features.attributes)
