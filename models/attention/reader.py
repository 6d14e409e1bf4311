"""What a model attended to in one image and one caption, in one form for all that attend."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pipeline.corpus.tables import in_split, load_captions
from pipeline.inputs.files import Inputs
from pipeline.inputs.regions import RegionInputs, require_boxes
from pipeline.report.attention_reader import AttentionReader, shown_words
from pipeline.storage.checkpoint import Checkpoint


class AttentionView(NamedTuple):
    """Of an image with R regions and a caption of T words, without padding. Weights sum to 1 over
    the regions where words attend to regions, else over the words; shares: None where all are
    equal."""

    score: float  # similarity of the two
    weights: Tensor  # (T, R) attention of words and regions
    word_weights: Tensor | None = None  # (T,) shares of the words in the score
    region_weights: Tensor | None = None  # (R,) shares of the regions in it
    order: Tensor | None = None  # (R,) the regions in the order they were read, if any


def open_reader(
    network: Callable[..., Any],
    view: Callable[..., Any],
    checkpoint: Checkpoint,
    inputs: Inputs,
    device: torch.device,
    split: str,
) -> AttentionReader:
    """A function from ids of a split's image and caption to what the model attended to. view: from
    the network and a pair to an AttentionView. WorkbenchError for regions
    without boxes and inputs that are not those of the training."""
    opened = RegionInputs(inputs, in_memory=False)
    checkpoint.require(opened.identity)
    require_boxes(opened.features, "a picture of attention")
    model = checkpoint.build(network).to(device)
    tokens = in_split(load_captions(inputs.captions), split)["tokens"]
    words = [shown_words(sentence, opened.vocabulary) for sentence in tokens]
    return AttentionReader(
        partial(view, model), opened.split(split), words, opened.vocabulary, device
    )
