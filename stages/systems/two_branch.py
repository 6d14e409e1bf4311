"""The two-branch network as a system: image and sentence vectors in, cosines out."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from models.losses.structure import StructureLoss
from models.two_branch import TwoBranch
from pipeline.checkpoint import Checkpoint
from pipeline.neighbours import NeighbourBatches, Neighbourhood
from pipeline.optimisers import optimiser
from pipeline.phases import Schedule
from pipeline.score_file import SplitScores
from pipeline.scoring import score_vectors
from pipeline.sections import Params
from pipeline.sources import FeatureRows, feature_moments
from stages.systems import Inputs, TrainingJob
from stages.systems.ranking import ranking_phases
from stages.systems.vectors import identity, open_inputs, splits


def prepare_training(params: Params, inputs: Inputs, device: torch.device) -> TrainingJob:
    """The network with its first weights, its data and phases; the generators must be seeded."""
    own, training, ranking = params.two_branch, params.two_branch.training, params.ranking
    used: dict[str, Any] = {"loss": params.loss, "seed": params.seed}
    used |= {"ranking": ranking.model_dump(), "two_branch": own.model_dump()}
    features, sentences = open_inputs(inputs)
    sizes = {"image_dim": features.shape()[1], "sentence_dim": sentences.shape()[1]}
    hidden = own.hidden if own.branches == "nonlinear" else 0
    sizes |= {"hidden": hidden, "dim": own.dim, "batch_norm": int(own.batch_norm)}
    model = TwoBranch(**sizes, dropout=own.dropout)
    train, val = map(splits(inputs, features, sentences), ("train", "val"))
    if own.standardise_images:
        model.standardise_images(*feature_moments(FeatureRows(features, train.image_ids)))
    if own.standardise_sentences:
        model.standardise_sentences(*feature_moments(FeatureRows(sentences, train.caption_ids)))
    model.to(device)
    options = own.weights.model_dump() | own.model_dump(include={"margin", "structure_k"})
    options |= ranking.model_dump(include={"k", "reduction"})
    make_loss = partial(StructureLoss, **options)
    return TrainingJob(
        model=model,
        optimiser=optimiser(
            training.optimiser,
            model.parameters(),
            training.lr,
            training.momentum,
            training.weight_decay,
        ),
        phases=ranking_phases(
            params.loss, ranking, training.epochs, make_loss, embeddings_and_groups
        ),
        batches=NeighbourBatches(train, training.batch_size, params.seed),
        score_validation=lambda: score_vectors(model, val, device),
        schedule=Schedule(training.lr_step, training.lr_factor, training.clip, training.precision),
        architecture=sizes,
        params=used,
        inputs=identity(features, sentences),
    )


def prepare_scoring(
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
