"""A small split of random regions and captions, and a DP-RNN in its last phase for it."""

import numpy as np
import torch

from models.dp_rnn.network import DPRNN
from pipeline.inputs.batches import Split
from pipeline.inputs.regions import Regions
from pipeline.inputs.sources import TokenRows

CPU = torch.device("cpu")
DESCRIBED = np.repeat(np.arange(7), [2, 3, 1, 2, 3, 1, 2])


def toy_split(counts=(4, 2, 3, 1, 1, 4, 4), words=4):
    """Seven images with so many of 4 regions each and 1 to 3 captions of 1 to `words` words."""
    generator, random = torch.Generator().manual_seed(0), np.random.default_rng(0)
    features, positions = (torch.rand(7, 4, n, generator=generator) for n in (5, 4))
    counts, ids = torch.tensor(counts), [f"i{n}" for n in range(7)]
    captions = [random.integers(1, 9, random.integers(1, words + 1)).tolist() for _ in DESCRIBED]
    return Split(
        image_ids=ids,
        image_groups=ids,
        caption_ids=[f"c{n}" for n in range(len(captions))],
        described=DESCRIBED,
        images=lambda rows: Regions(features[rows], positions[rows], counts[rows]),
        captions=TokenRows(captions),
    )


def network(**settings):
    torch.manual_seed(0)
    network = DPRNN(5, 9, 4, 6, **settings)
    network.enter_phase("all")
    return network
