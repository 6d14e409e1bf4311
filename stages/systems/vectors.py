"""Inputs of models that read one vector per image and one per caption."""

from collections.abc import Callable
from functools import partial

from pipeline.batches import Split, read_split
from pipeline.checkpoint import feature_identity
from pipeline.feature_store import FeatureFile
from pipeline.sources import FeatureRows, SentenceRows, open_vectors
from stages.systems import Inputs


def open_inputs(inputs: Inputs) -> tuple[FeatureFile, FeatureFile]:
    """The features of the images and those of the captions."""
    return open_vectors(inputs.features), open_vectors(inputs.text)


def splits(inputs: Inputs, features: FeatureFile, sentences: FeatureFile) -> Callable[[str], Split]:
    """A function from a split's name to its images and captions, both as vectors."""
    sources = partial(FeatureRows, features), partial(SentenceRows, sentences)
    return lambda name: read_split(name, inputs.images, inputs.captions, *sources)


def identity(features: FeatureFile, sentences: FeatureFile) -> dict[str, str]:
    """What weights cannot be used without."""
    of_sentences = feature_identity(sentences.attributes, "sentences")
    return feature_identity(features.attributes) | of_sentences
