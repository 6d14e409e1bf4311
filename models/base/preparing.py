"""From a network to a training that can begin: what models that learn by the ranking loss share."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from models.base.model import Settings, TrainingJob
from models.base.phases import (
    Arguments,
    Trained,
    advice,
    chosen_loss,
    optimiser_of,
    ranking_phases,
    schedule,
)
from models.ranking.pairs import PairLoss
from pipeline.corpus.vocabulary import load_word_vectors
from pipeline.inputs.batches import PairBatches, Split
from pipeline.inputs.sources import OpenedInputs
from pipeline.scores.file import SplitScores
from pipeline.training.loop import fit
from pipeline.training.phases import Batches, Phase


def set_first_weights(model: Any, config: Any, inputs: OpenedInputs, train: Split) -> None:
    """Take first weights from the data: word vectors, and the moments of the image features."""
    if config.word_vectors == "pretrained":
        matrix = load_word_vectors(inputs.files.text, config.word_dim)
        model.initialise_words(torch.from_numpy(matrix))
    if config.standardise_images:
        model.standardise_images(*inputs.images(train.image_ids).moments())


def pair_job(
    name: str,
    settings: Settings,
    inputs: OpenedInputs,
    train: Split,
    model: Any,
    architecture: dict[str, Any],
    arguments: Arguments,
    score: Callable[[Any, Split, torch.device], SplitScores],
    device: torch.device,
) -> TrainingJob:
    """A training by the ranking loss on batches of image-caption pairs of the split `train`.
    arguments: from the network and a batch to what a PairLoss takes; score: of the validation."""
    training, val = settings.config.training, inputs.split("val")
    wrap = partial(PairLoss, reduction=training.reduction)
    return training_job(
        name,
        settings,
        inputs,
        architecture,
        Trained(model, wrap(chosen_loss(settings))).to(device),
        ranking_phases(settings, wrap, arguments),
        PairBatches(train, training.batch_size, settings.seed),
        lambda: score(model, val, device),
    )


def training_job(
    name: str,
    settings: Settings,
    inputs: OpenedInputs,
    architecture: dict[str, Any],
    trained: Trained,
    phases: Sequence[Phase],
    batches: Batches,
    validate: Callable[[], Any],
    unread: Any = None,
    **options: Any,
) -> TrainingJob:
    """A training by the settings of params.yaml; arguments as for pipeline.training.loop.fit.
    unread: keys of the section that decide no result."""
    training = settings.config.training
    return TrainingJob(
        run=partial(
            fit,
            trained,
            # without a rate of its own it has phases with theirs
            optimiser_of(training, trained.parameters(), getattr(training, "lr", 1.0)),
            phases,
            batches,
            validate,
            schedule(training),
            advice=advice(settings, name),
            **options,
        ),
        architecture=architecture,
        params=settings.used(name, unread),
        inputs=inputs.identity,
        kept=Trained.KEPT,
    )
