"""Inputs of models that read one vector per image and the words of a caption."""

from collections.abc import Callable
from functools import partial

from pipeline.corpus.vocabulary import Vocabulary
from pipeline.inputs.batches import Split, read_split
from pipeline.inputs.files import Inputs
from pipeline.inputs.sources import FeatureRows, encode_captions, open_vectors
from pipeline.storage.checkpoint import feature_identity
from pipeline.storage.features import FeatureFile


def open_inputs(inputs: Inputs) -> tuple[Vocabulary, FeatureFile]:
    """The vocabulary and the features of the images."""
    return Vocabulary.load(inputs.text), open_vectors(inputs.features)


def splits(inputs: Inputs, vocabulary: Vocabulary, features: FeatureFile) -> Callable[[str], Split]:
    """A function from a split's name to its images and captions.

    Args:
        inputs: the tables of the corpus.
        vocabulary: of the captions, which become word ids.
        features: of the images.
    """
    sources = partial(FeatureRows, features), partial(encode_captions, vocabulary)
    return lambda name: read_split(name, inputs.images, inputs.captions, *sources)


def identity(vocabulary: Vocabulary, features: FeatureFile) -> dict[str, str]:
    """What weights cannot be used without; features: of images or of their regions."""
    return {"vocabulary_sha256": vocabulary.sha256} | feature_identity(features.attributes)
