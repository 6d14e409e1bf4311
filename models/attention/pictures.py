"""What a trained model attended to, for pictures: any model that has `attention`."""

import torch

from models.registry import load_model, models_that
from pipeline.features.checkpoint import Checkpoint
from pipeline.features.data import Inputs
from pipeline.report.attention_reader import AttentionReader
from pipeline.runtime.errors import WorkbenchError


def check_attention(name: str) -> None:
    """Raise WorkbenchError for a model that has no `attention`."""
    if not load_model(name).attends():
        able = ", ".join(models_that(lambda other: other.attends()))
        raise WorkbenchError(f"model {name!r} has no attention; {able} have")


def open_attention(
    name: str, checkpoint: Checkpoint, inputs: Inputs, device: torch.device, split: str
) -> AttentionReader:
    """A function from ids of an image and a caption to what a model attended to.

    Args:
        name: Of the model.
        checkpoint: Its weights.
        inputs: The artefacts that it reads; its regions have boxes.
        device: That it runs on.
        split: train, val or test.

    Returns:
        The function.

    Raises:
        WorkbenchError: The model has no attention, the regions have no boxes, or the inputs are not
            those of the training.
    """
    check_attention(name)
    kind = load_model(name)
    model = kind.from_checkpoint(checkpoint, name).to(device)
    data = kind.open_data(model.config, inputs, in_memory=False)
    checkpoint.require(data.identity)
    return AttentionReader(model.attention, data, split, device)
