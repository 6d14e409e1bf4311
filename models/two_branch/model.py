"""The two-branch network as a system: image and sentence vectors in, cosines out."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from models.base.model import Settings, TrainingJob
from models.base.phases import Trained, advice, chosen_loss, ranking_phases
from models.base.scoring import score_vectors
from models.losses.ranking import RankingLoss
from models.two_branch.batches import NeighbourBatches, Neighbourhood
from models.two_branch.loss import StructureLoss
from models.two_branch.network import TwoBranch
from models.two_branch.params import TwoBranchConfig
from pipeline.inputs.batches import Split
from pipeline.inputs.files import Inputs
from pipeline.inputs.sources import FeatureRows, feature_moments, identity, open_inputs, splits
from pipeline.scores.file import SplitScores
from pipeline.storage.checkpoint import Checkpoint
from pipeline.training.loop import fit
from pipeline.training.phases import Schedule, optimiser
from pipeline.training.processes import divided


def prepare(settings: Settings, inputs: Inputs, device: torch.device) -> TrainingJob:
    """The network with its first weights, its data and phases; the generators must be seeded.

    Args:
        settings: the section `two_branch` and the ranking loss.
        inputs: the sentence vectors, image features and tables.
        device: where the training runs.

    Raises:
        WorkbenchError: artefacts that are missing, damaged or do not fit the settings.
    """
    config, training = settings.config, settings.config.training
    used: dict[str, Any] = {"loss": settings.loss, "seed": settings.seed}
    used |= {"ranking": settings.ranking.model_dump(), "two_branch": config.model_dump()}
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
    options = config.weights.model_dump() | config.model_dump(include={"margin", "structure_k"})
    options |= {"reduction": training.reduction}

    def wrap(ranking: RankingLoss) -> StructureLoss:
        return StructureLoss(ranking, **options)

    both = Trained(model, wrap(chosen_loss(settings))).to(device)
    return TrainingJob(
        run=partial(
            fit,
            both,
            optimiser(
                training.optimiser,
                both.parameters(),
                training.lr,
                training.momentum,
                training.weight_decay,
            ),
            ranking_phases(settings, wrap, embeddings_and_groups),
            training_batches(config, train, settings.seed),
            lambda: score_vectors(model, val, device),
            Schedule(training.lr_step, training.lr_factor, training.clip, training.precision),
            advice=advice(settings, "two_branch"),
        ),
        architecture=sizes,
        params=used,
        inputs=identity(features, sentences),
        kept=Trained.KEPT,
    )


def scorer(
    checkpoint: Checkpoint, inputs: Inputs, device: torch.device
) -> Callable[[str], SplitScores]:
    """A function from a split's name to its scores; the sizes come from the checkpoint.

    Args:
        checkpoint: weights of the model.
        inputs: the sentence vectors, image features and tables.
        device: where the model runs.

    Returns:
        Scores (N images, M captions), with the embeddings and ids.

    Raises:
        WorkbenchError: inputs that are not those of the training.
    """
    features, sentences = open_inputs(inputs)
    checkpoint.require(identity(features, sentences))
    model = checkpoint.build(TwoBranch).to(device)
    split = splits(inputs, features, sentences)
    return lambda name: score_vectors(model, split(name), device)


def training_batches(config: TwoBranchConfig, split: Split, seed: int) -> NeighbourBatches:
    """Batches of random pairs, with one more caption of each image where captions are compared with
    each other, and one more image of each group where images are.

    Args:
        config: the section `two_branch`.
        split: the training images and captions.
        seed: of the draws.
    """
    return NeighbourBatches(
        split,
        config.training.batch_size,
        seed,
        extra_captions=int(config.weights.sentence_sentence > 0),
        extra_images=int(config.weights.image_image > 0),
    )


def embeddings_and_groups(
    model: TwoBranch, batch: Neighbourhood
) -> tuple[torch.Tensor | None, ...]:
    """Unit rows of a batch's images (I, K) and captions (C, K), and which are no negatives."""
    embedded = model(batch.images, batch.captions[0], divided)
    return *embedded, batch.image_groups, batch.caption_groups, batch.related
