"""Inputs of models that read one vector per image and the words of a caption."""

import pandas as pd

from pipeline.corpus.vocabulary import Vocabulary
from pipeline.inputs.batches import CaptionSource
from pipeline.inputs.files import Inputs
from pipeline.inputs.sources import (
    FeatureRows,
    OpenedInputs,
    encode_captions,
    open_vectors,
)
from pipeline.storage.checkpoint import feature_identity


class WordInputs(OpenedInputs):
    """One vector per image, and captions as word ids of the vocabulary in the folder `text`."""

    open_features = staticmethod(open_vectors)

    def __init__(self, files: Inputs, in_memory: bool = True) -> None:
        self.files, self.vocabulary = files, Vocabulary.load(files.text)
        self.features = self.open_features(files.features, in_memory)

    @property
    def identity(self) -> dict[str, str]:
        vocabulary = {"vocabulary_sha256": self.vocabulary.sha256}
        return vocabulary | feature_identity(self.features.attributes)

    @property
    def sizes(self) -> dict[str, int]:
        width = self.features.shape()[-1]
        return {"image_dim": width, "vocabulary_size": len(self.vocabulary)}

    def images(self, ids: list[str]) -> FeatureRows:
        return FeatureRows(self.features, ids)

    def captions(self, table: pd.DataFrame) -> CaptionSource:
        return encode_captions(self.vocabulary, table)
