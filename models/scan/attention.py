"""What SCAN attended to in a pair of image and caption."""

from functools import partial

from models.attention.reader import open_reader
from models.attention.view import scan_view
from models.scan.network import SCAN

# of a checkpoint, its inputs, a device and a split's name: what looks at pairs of the split
attention = partial(open_reader, SCAN, scan_view)
