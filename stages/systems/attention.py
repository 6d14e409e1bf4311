"""Trained models as something that can be asked what it attended to.

To add a model whose inputs are regions and word ids, name its network and its view here.
"""

import importlib
from functools import partial
from pathlib import Path
from typing import Any

import torch

from pipeline.attention_file import record_attention
from pipeline.attention_reader import AttentionReader, split_words
from pipeline.checkpoint import Checkpoint
from pipeline.errors import WorkbenchError
from pipeline.region_rows import has_boxes, require_boxes
from pipeline.score_file import SplitScores
from pipeline.vocabulary import Vocabulary
from stages.systems.inputs import Inputs
from stages.systems.region_rows import open_rows
from stages.systems.regions import identity, splits

VIEWS = {  # model -> its network, what is seen through it
    "dp_rnn": ("models.dp_rnn:DPRNN", "models.dp_rnn_view:dp_rnn_view"),
    "scan": ("models.scan:SCAN", "models.attention_views:scan_view"),
}


def require_attention(name: str) -> None:
    """Raise WorkbenchError for a model without attention."""
    if name not in VIEWS:
        raise WorkbenchError(f"model {name!r} has no attention; {', '.join(sorted(VIEWS))} have")


def attention_reader(
    checkpoint: Checkpoint, inputs: Inputs, device: torch.device, split: str
) -> AttentionReader:
    """A function from ids of a split's image and caption to what the model attended to.

    Raises WorkbenchError for a model without attention, for regions without boxes, and for
    inputs that are not those of the training.
    """
    name = checkpoint.description.model
    require_attention(name)
    vocabulary, regions = Vocabulary.load(inputs.text), open_rows(inputs.features)
    checkpoint.require(identity(vocabulary, regions))
    require_boxes(regions, "a picture of attention")
    network, view = map(_loaded, VIEWS[name])
    model = checkpoint.build(network).to(device)
    words = split_words(inputs.captions, split, vocabulary)
    return AttentionReader(
        partial(view, model), splits(inputs, vocabulary, regions)(split), words, device
    )


def record(
    path: Path,
    checkpoint: Checkpoint,
    inputs: Inputs,
    scores: SplitScores,
    seed: int,
    device: torch.device,
) -> None:
    """Write what the report shows of a model's attention in the test split, whose scores these are.

    No pair for models without attention and for regions without boxes.
    """
    name, reader = checkpoint.description.model, None
    if name in VIEWS and has_boxes(open_rows(inputs.features)):
        reader = attention_reader(checkpoint, inputs, device, "test")
    attributes = {"model": name, "checkpoint_sha256": checkpoint.sha256}
    record_attention(path, reader, scores, seed, attributes)


def _loaded(name: str) -> Any:
    module, attribute = name.split(":")
    return getattr(importlib.import_module(module), attribute)
