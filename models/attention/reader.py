"""A trained model as something that can be asked what it attended to."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from models.attention.inputs import open_rows, splits
from pipeline.attention.reader import AttentionReader, split_words
from pipeline.corpus.vocabulary import Vocabulary
from pipeline.inputs.files import Inputs
from pipeline.inputs.regions import require_boxes
from pipeline.inputs.words import identity
from pipeline.storage.checkpoint import Checkpoint


def open_reader(
    checkpoint: Checkpoint,
    inputs: Inputs,
    device: torch.device,
    split: str,
    network: Callable[..., Any],
    view: Callable[..., Any],
) -> AttentionReader:
    """A function from ids of a split's image and caption to what the model attended to.

    Args:
        checkpoint: of the model.
        inputs: the vocabulary, regions and tables.
        device: where the model runs.
        split: its name.
        network: class of the model.
        view: from the network and a pair to its attention.

    Raises:
        WorkbenchError: regions without boxes, inputs that are not those of the training.
    """
    vocabulary, regions = Vocabulary.load(inputs.text), open_rows(inputs.features)
    checkpoint.require(identity(vocabulary, regions))
    require_boxes(regions, "a picture of attention")
    model = checkpoint.build(network).to(device)
    words = split_words(inputs.captions, split, vocabulary)
    return AttentionReader(
        partial(view, model),
        splits(inputs, vocabulary, regions)(split),
        words,
        vocabulary,
        device,
    )
