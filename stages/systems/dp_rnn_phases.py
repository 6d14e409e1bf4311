"""Phases of DP-RNN's training: the matching alone, the recurrent network alone, everything."""

import torch

from models.dp_rnn import DPRNN
from models.losses.early_selection import ComputedPairsLoss
from pipeline.batches import Batch
from pipeline.phases import Phase
from pipeline.sections.models import DPRNN as Section


def phases_of(own: Section, loss: ComputedPairsLoss) -> list[Phase]:
    """The three phases of the paper; without recurrence all epochs that train the rest are one."""
    epochs = own.training.epochs
    counts = {"matching": epochs.matching, "recurrent": epochs.recurrent, "all": epochs.all}
    if not own.recurrent:
        counts = {"matching": epochs.matching + epochs.all}

    def objective(model: DPRNN, batch: Batch) -> torch.Tensor:
        images = batch.images
        sides = images.features, images.positions, images.counts, batch.captions, batch.lengths
        pairs = model(*sides, batch.groups)
        return torch.stack([loss(*tower, batch.groups) for tower in pairs]).sum()

    return [
        Phase(
            name=name,
            epochs=count,
            objective=objective,
            prepare=lambda model, name=name: model.enter_phase(name),  # type: ignore[misc]
            selects=name == list(counts)[-1] or (name == "recurrent" and not epochs.all),
        )
        for name, count in counts.items()
        if count
    ]
