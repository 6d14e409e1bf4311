"""The two-branch network as a system: image and sentence vectors in, cosines out."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from models.base.model import Settings, TrainingJob
from models.base.phases import ranking_phases
from models.base.scoring import score_vectors
from models.two_branch.batches import NeighbourBatches, Neighbourhood
from models.two_branch.loss import StructureLoss
from models.two_branch.network import TwoBranch
from pipeline.inputs.files import Inputs
from pipeline.inputs.sources import FeatureRows, feature_moments, identity, open_inputs, splits
from pipeline.scores.file import SplitScores
from pipeline.storage.checkpoint import Checkpoint
from pipeline.training.loop import fit
from pipeline.training.phases import Schedule, optimiser


def prepare(settings: Settings, inputs: Inputs, device: torch.device) -> TrainingJob:
    """The network with its first weights, its data and phases; the generators must be seeded."""
    config, ranking = settings.config, settings.ranking
    training = config.training
    used: dict[str, Any] = {"loss": settings.loss, "seed": settings.seed}
    used |= {"ranking": ranking.model_dump(), "two_branch": config.model_dump()}
    features, sentences = open_inputs(inputs)
    sizes = {"image_dim": features.shape()[1], "sentence_dim": sentences.shape()[1]}
    hidden = config.hidden if config.branches == "nonlinear" else 0
    sizes |= {"hidden": hidden, "dim": config.dim, "batch_norm": int(config.batch_norm)}
    model = TwoBranch(**sizes, dropout=config.dropout)
    train, val = map(splits(inputs, features, sentences), ("train", "val"))
    if config.standardise_images:
        model.standardise_images(*feature_moments(FeatureRows(features, train.image_ids)))
    if config.standardise_sentences:
        model.standardise_sentences(*feature_moments(FeatureRows(sentences, train.caption_ids)))
    model.to(device)
    options = config.weights.model_dump() | config.model_dump(include={"margin", "structure_k"})
    options |= ranking.model_dump(include={"k", "reduction"})
    make_loss = partial(StructureLoss, **options)
    return TrainingJob(
        run=partial(
            fit,
            model,
            optimiser(
                training.optimiser,
                model.parameters(),
                training.lr,
                training.momentum,
                training.weight_decay,
            ),
            ranking_phases(
                settings.loss, ranking, training.epochs, make_loss, embeddings_and_groups
            ),
            NeighbourBatches(train, training.batch_size, settings.seed),
            lambda: score_vectors(model, val, device),
            Schedule(training.lr_step, training.lr_factor, training.clip, training.precision),
        ),
        architecture=sizes,
        params=used,
        inputs=identity(features, sentences),
    )


def scorer(
    checkpoint: Checkpoint, inputs: Inputs, device: torch.device
) -> Callable[[str], SplitScores]:
    """A function from a split's name to its scores; the sizes come from the checkpoint."""
    features, sentences = open_inputs(inputs)
    checkpoint.require(identity(features, sentences))
    model = checkpoint.build(TwoBranch).to(device)
    split = splits(inputs, features, sentences)
    return lambda name: score_vectors(model, split(name), device)


def embeddings_and_groups(model: TwoBranch, batch: Neighbourhood) -> tuple[torch.Tensor, ...]:
    """Unit rows of a batch's images (I, K) and captions (C, K), and the groups of both."""
    embedded = model(batch.images, batch.captions[0])
    return *embedded, batch.image_groups, batch.caption_groups
