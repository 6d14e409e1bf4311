"""Inputs of models that read the regions of an image and the words of a caption."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

from pipeline.corpus.vocabulary import Vocabulary, load_word_vectors
from pipeline.inputs.batches import Split, read_split
from pipeline.inputs.files import Inputs
from pipeline.inputs.regions import ROWS, RegionRows, open_regions, region_moments, require_boxes
from pipeline.inputs.sources import encode_captions
from pipeline.runtime.errors import WorkbenchError
from pipeline.storage.features import FeatureFile


def open_inputs(inputs: Inputs) -> tuple[Vocabulary, FeatureFile]:
    """The vocabulary and the regions."""
    return Vocabulary.load(inputs.text), open_regions(inputs.features)


def sizes(own: Any, vocabulary: Vocabulary, regions: FeatureFile) -> dict[str, int]:
    """What decides the shapes of the weights.

    Args:
        own: the model's section of params.yaml.
        vocabulary: V words.
        regions: a file of them, (N, R, D).

    Returns:
        Arguments of the network by name.
    """
    found = {"image_dim": regions.shape()[2], "vocabulary_size": len(vocabulary)}
    return found | {"word_dim": own.word_dim, "dim": own.dim}


def prepare_weights(model: Any, own: Any, name: str, inputs: Inputs, train: Split) -> None:
    """What first weights take from the data: word vectors, and the moments of the regions.

    Args:
        model: the network, changed in place.
        own: the section `name` of params.yaml.
        name: of the model.
        inputs: whose folder of the vocabulary has the word vectors.
        train: the split whose regions are measured.

    Raises:
        WorkbenchError: the section asks for positions that the regions do not have.
    """
    assert isinstance(train.images, RegionRows)
    if own.position_gate:
        require_boxes(train.images.features, f"{name}.position_gate")
    if own.word_vectors == "pretrained":
        model.initialise_words(torch.from_numpy(load_word_vectors(inputs.text, own.word_dim)))
    if own.standardise_images:
        model.standardise_images(*region_moments(train.images))


def splits(inputs: Inputs, vocabulary: Vocabulary, regions: FeatureFile) -> Callable[[str], Split]:
    """A function from a split's name to its images and captions, as regions and word ids.

    Args:
        inputs: whose tables of the corpus are read.
        vocabulary: from words to ids.
        regions: a file of them.
    """
    sources = partial(RegionRows, regions), partial(encode_captions, vocabulary)
    return lambda name: read_split(name, inputs.images, inputs.captions, *sources)


def open_rows(path: Path) -> FeatureFile:
    """The file; WorkbenchError when it holds no regions, or none that fit each other."""
    file = FeatureFile(path)
    if not set(ROWS) <= set(file.layouts) or file.shape("boxes")[1:] != (*file.shape()[1:2], 4):
        raise WorkbenchError(f"{path}: not a file of regions", "see stages.extract_region_features")
    return file
