"""A small split of random regions and captions, and a DP-RNN in its last phase for it."""

import numpy as np
import torch

from models.dp_rnn.model import DPRNN, DPRNNConfig
from pipeline.features.data import WordRows
from pipeline.features.split import Regions, Split
from pipeline.training.trainer import Phase

PAPER = {"beta_words": 0.3, "beta_objects": 0.3}
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
        captions=WordRows(captions),
    )


def enter(model, phase):
    """Set what a phase trains, as the trainer does before each of its epochs."""
    model.enter(Phase(phase, 1, batches=None))


def network(shortlist=None, **settings):
    torch.manual_seed(0)
    config = DPRNNConfig(**{"word_dim": 4, "dim": 6, "validation_shortlist": 3} | PAPER | settings)
    model = DPRNN(config, image_dim=5, vocabulary_size=9)
    enter(model, "all")
    model.shortlist = shortlist
    return model
