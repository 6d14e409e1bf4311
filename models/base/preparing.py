"""From a network to a training that can begin: what models that learn by the ranking loss share."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import nn

from models.base.model import Settings, TrainingJob
from models.base.phases import Trained, chosen_loss, fit_by, ranking_phases
from models.base.scoring import tensors_of
from models.layers.linear import Standardise
from models.ranking.pairs import PairLoss
from pipeline.corpus.vocabulary import load_word_vectors
from pipeline.evaluation.score_file import SplitScores
from pipeline.inputs.batches import Batch, PairBatches, Split
from pipeline.inputs.sources import OpenedInputs
from pipeline.training.phases import Batches, Phase
from pipeline.training.processes import divided

# Keys of the section of a model of pairs that the training reads; the others are the network's.
OF_TRAINING = {"words", "word_vectors", "standardise_images", "margin", "training"}


def set_first_weights(model: nn.Module, config: Any, inputs: OpenedInputs, train: Split) -> None:
    """Take first weights from the data: word vectors, row 0 as zeros, for every embedding `words`,
    and the moments of the image features for every Standardise."""
    if config.word_vectors == "pretrained":
        matrix = torch.from_numpy(load_word_vectors(inputs.files.text, config.word_dim))
        matrix[0] = 0
        for name, part in model.named_modules():
            if isinstance(part, nn.Embedding) and name.endswith("words"):
                part.weight.data.copy_(matrix)
    if config.standardise_images:
        moments = inputs.images(train.image_ids).moments()
        for part in model.modules():
            if isinstance(part, Standardise):
                part.fit(*moments)


def pair_job(
    name: str,
    settings: Settings,
    inputs: OpenedInputs,
    network: Callable[..., nn.Module],
    score: Callable[[Any, Split, torch.device], SplitScores],
    device: torch.device,
) -> TrainingJob:
    """A training by the ranking loss on batches of image-caption pairs. network: of its inputs'
    sizes and the section's keys but OF_TRAINING; score: of the validation."""
    training, architecture = settings.config.training, inputs.sizes
    architecture |= settings.config.model_dump(exclude=OF_TRAINING)
    model, train, val = network(**architecture), inputs.split("train"), inputs.split("val")
    set_first_weights(model, settings.config, inputs, train)
    wrap = partial(PairLoss, reduction=training.reduction)
    return training_job(
        name,
        settings,
        inputs,
        architecture,
        Trained(model, wrap(chosen_loss(settings))).to(device),
        ranking_phases(settings, wrap, scores_and_groups),
        PairBatches(train, training.batch_size, settings.seed),
        lambda: score(model, val, device),
    )


def scores_and_groups(model: nn.Module, batch: Batch) -> tuple[torch.Tensor | None, ...]:
    """(B, B) scores of a batch's images and captions, and which are no negatives."""
    scores = model(*tensors_of(batch.images), batch.captions, batch.lengths, divided)
    return scores, batch.groups, None, batch.related


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
    return TrainingJob(
        run=partial(fit_by, settings, name, trained, phases, batches, validate, **options),
        architecture=architecture,
        params=settings.used(name, unread),
        inputs=inputs.identity,
        kept=Trained.KEPT,
    )
