"""What DP-RNN attended to in a pair of image and caption."""

from functools import partial

from models.attention.reader import open_reader
from models.dp_rnn.network import DPRNN
from models.dp_rnn.view import dp_rnn_view

# of a checkpoint, its inputs, a device and a split's name: what looks at pairs of the split
attention = partial(open_reader, DPRNN, dp_rnn_view)
