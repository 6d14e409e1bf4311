"""SCAN as a system: regions and word ids in, a ranking loss on attended cosines out."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from models.attention.inputs import open_inputs, prepare_weights, sizes, splits
from models.attention.scoring import score_pairs
from models.base.model import Settings, TrainingJob
from models.base.phases import Trained, advice, chosen_loss, ranking_phases
from models.ranking.pairs import PairLoss
from models.scan.network import SCAN
from pipeline.inputs.batches import Batch, PairBatches
from pipeline.inputs.files import Inputs
from pipeline.inputs.words import identity
from pipeline.scores.file import SplitScores
from pipeline.storage.checkpoint import Checkpoint
from pipeline.training.loop import fit
from pipeline.training.phases import Schedule, optimiser
from pipeline.training.processes import divided

ATTENTION = ("direction", "pooling", "temperature", "lse", "position_gate")


def prepare(settings: Settings, inputs: Inputs, device: torch.device) -> TrainingJob:
    """The network with its first weights, its data and phases; the generators must be seeded.

    Args:
        settings: the section `scan` and the ranking loss.
        inputs: the vocabulary, regions and tables.
        device: where the training runs.

    Raises:
        WorkbenchError: artefacts that are missing, damaged or do not fit the settings.
    """
    config, training = settings.config, settings.config.training
    used: dict[str, Any] = {"loss": settings.loss, "seed": settings.seed}
    used |= {"ranking": settings.ranking.model_dump(), "scan": config.model_dump()}
    vocabulary, regions = open_inputs(inputs)
    architecture = sizes(config, vocabulary, regions) | config.model_dump(include=set(ATTENTION))
    model = SCAN(**architecture)
    train, val = map(splits(inputs, vocabulary, regions), ("train", "val"))
    prepare_weights(model, config, "scan", inputs, train)
    wrap = partial(PairLoss, reduction=training.reduction)
    both = Trained(model, wrap(chosen_loss(settings))).to(device)
    return TrainingJob(
        run=partial(
            fit,
            both,
            optimiser("adam", both.parameters(), training.lr),
            ranking_phases(settings, wrap, scores_and_groups),
            PairBatches(train, training.batch_size, settings.seed),
            lambda: score_pairs(model, val, device, training.precision),
            Schedule(training.lr_step, training.lr_factor, training.clip, training.precision),
            advice=advice(settings, "scan"),
        ),
        architecture=architecture,
        params=used,
        inputs=identity(vocabulary, regions),
        kept=Trained.KEPT,
    )


def scorer(
    checkpoint: Checkpoint, inputs: Inputs, device: torch.device
) -> Callable[[str], SplitScores]:
    """A function from a split's name to its scores; the sizes come from the checkpoint.

    Args:
        checkpoint: weights of the model.
        inputs: the vocabulary, regions and tables.
        device: where the model runs.

    Returns:
        Scores (N images, M captions), with the embeddings and ids.

    Raises:
        WorkbenchError: inputs that are not those of the training.
    """
    vocabulary, regions = open_inputs(inputs)
    checkpoint.require(identity(vocabulary, regions))
    model = checkpoint.build(SCAN).to(device)
    split = splits(inputs, vocabulary, regions)
    training = checkpoint.description.params.get("scan", {}).get("training", {})
    precision = training.get("precision", "fp32")  # as its epochs were judged
    return lambda name: score_pairs(model, split(name), device, precision)


def scores_and_groups(model: SCAN, batch: Batch) -> tuple[torch.Tensor | None, ...]:
    """(B, B) similarities of a batch's images and captions, and which are no negatives."""
    images = batch.images
    sides = images.features, images.positions, images.counts, batch.captions, batch.lengths
    return model(*sides, divided), batch.groups, None, batch.related
