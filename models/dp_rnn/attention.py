"""What DP-RNN attended to in a pair of image and caption."""

import torch

from models.attention.reader import open_reader
from models.dp_rnn.network import DPRNN
from models.dp_rnn.view import dp_rnn_view
from pipeline.attention.reader import AttentionReader
from pipeline.inputs.files import Inputs
from pipeline.storage.checkpoint import Checkpoint


def attention(
    checkpoint: Checkpoint, inputs: Inputs, device: torch.device, split: str
) -> AttentionReader:
    """What the model attends to in pairs of a split.

    Args:
        checkpoint: weights of the model.
        inputs: the vocabulary, regions and tables.
        device: where the model runs.
        split: its name.

    Raises:
        WorkbenchError: regions without boxes, inputs that are not those of the training.
    """
    return open_reader(checkpoint, inputs, device, split, DPRNN, dp_rnn_view)
