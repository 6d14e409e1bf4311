"""A small DP-RNN in its last phase and a split of random regions and captions for it."""

from types import SimpleNamespace

import numpy as np
import torch

from models.dp_rnn.network import DPRNN
from pipeline.inputs.batches import Split

CPU = torch.device("cpu")


class Regions(SimpleNamespace):
    def to(self, device):
        return self


def toy_split(images=7, captions=11):
    generator = torch.Generator().manual_seed(0)
    features, positions = (torch.rand(images, 4, n, generator=generator) for n in (5, 4))
    counts = torch.randint(1, 5, (images,), generator=generator)
    tokens = torch.randint(1, 9, (captions, 3), generator=generator)
    lengths = torch.randint(1, 4, (captions,), generator=generator)
    ids = [f"i{n}" for n in range(images)]
    return Split(
        image_ids=ids,
        image_groups=ids,
        caption_ids=[f"c{n}" for n in range(captions)],
        described=np.arange(captions) % images,
        images=lambda rows: Regions(
            features=features[rows], positions=positions[rows], counts=counts[rows]
        ),
        captions=lambda rows: (tokens[rows], lengths[rows]),
    )


def network(**settings):
    torch.manual_seed(0)
    network = DPRNN(5, 9, 4, 6, **settings)
    network.enter_phase("all")
    return network
