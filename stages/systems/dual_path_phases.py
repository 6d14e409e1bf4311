"""Phases of the dual path from params.yaml: stage I on cached features, stage II from pixels."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import nn

from models.dual_path import DualPath
from models.losses.dual_path import DualPathLoss
from pipeline.batches import Split
from pipeline.image_batches import ImageBatch, ImageBatches
from pipeline.phases import Objective, Phase
from pipeline.runtime import say
from pipeline.scoring import score_vectors
from pipeline.sections.models import DualPath as Section
from pipeline.sections.models import DualPathPhase
from pipeline.slots import SlotRows


class Trained(nn.Module):
    """The network with its loss, whose classifier is trained, too, and left behind afterwards."""

    def __init__(self, network: DualPath, loss: DualPathLoss) -> None:
        super().__init__()
        self.network, self.loss = network, loss


def phases_of(
    own: Section,
    network: DualPath,
    data: Mapping[str, tuple[Split, Split]],
    labels: np.ndarray,
    seed: int,
    device: torch.device,
) -> list[Phase]:
    """The phases of params.yaml that have epochs.

    network: on its device; data: training and validation split, by what images are (`features` or
    `pixels`); labels: (N,) classes of the training images.
    """

    def made(phase: DualPathPhase) -> Phase:
        train, val = data[phase.images]
        return Phase(
            name=phase.name,
            epochs=phase.epochs,
            objective=objective(phase.weights),
            batches=ImageBatches(train, own.training.batch_size, seed, labels),
            prepare=lambda model: model.network.trainable(phase.train),
            lr=phase.lr,
            stop_below=phase.stop_below,
            score=lambda: score_vectors(network, val, device),
            ranks=phase.weights.ranking > 0,
        )

    return [made(phase) for phase in own.phases if phase.epochs]


def objective(weights: Any) -> Objective:
    """The loss of a batch with the weights of a phase."""
    terms = weights.ranking, weights.image_instance, weights.text_instance

    def loss(model: Trained, batch: ImageBatch) -> torch.Tensor:
        images, captions = model.network(batch.images, batch.captions)
        found: torch.Tensor = model.loss(images, captions, batch.groups, batch.labels, terms)
        return found

    return loss


def tell_losses(captions: Any) -> None:
    """Say how many captions did not fit their slots and how many words were left out."""
    if isinstance(captions, SlotRows) and (captions.clipped or captions.dropped):
        say(
            f"{captions.clipped:,} of {len(captions.slots):,} training captions are clipped to "
            f"{captions.slots.shape[1]} words, {captions.dropped:,} unknown words are left out"
        )
