"""A trained model as something that shows what it attended to."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from pipeline.attention.reader import AttentionReader, split_words
from pipeline.inputs.files import Inputs
from pipeline.inputs.regions import RegionInputs, require_boxes
from pipeline.storage.checkpoint import Checkpoint


def open_reader(
    network: Callable[..., Any],
    view: Callable[..., Any],
    checkpoint: Checkpoint,
    inputs: Inputs,
    device: torch.device,
    split: str,
) -> AttentionReader:
    """A function from ids of a split's image and caption to what the model attended to. view: from
    the network and a pair to a models.attention.view.AttentionView. WorkbenchError for regions
    without boxes and inputs that are not those of the training."""
    opened = RegionInputs(inputs, in_memory=False)
    checkpoint.require(opened.identity)
    require_boxes(opened.features, "a picture of attention")
    model = checkpoint.build(network).to(device)
    words = split_words(inputs.captions, split, opened.vocabulary)
    return AttentionReader(
        partial(view, model), opened.split(split), words, opened.vocabulary, device
    )
