"""VSE as a system: image features and word ids in, a ranking loss, cosines out."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from models.base.model import Settings, TrainingJob
from models.base.phases import Trained, advice, chosen_loss, ranking_phases
from models.base.scoring import score_vectors
from models.ranking.pairs import PairLoss
from models.vse.network import VSE
from pipeline.corpus.vocabulary import load_word_vectors
from pipeline.inputs.batches import Batch, PairBatches
from pipeline.inputs.files import Inputs
from pipeline.inputs.sources import FeatureRows, feature_moments
from pipeline.inputs.words import identity, open_inputs, splits
from pipeline.scores.file import SplitScores
from pipeline.storage.checkpoint import Checkpoint
from pipeline.training.loop import fit
from pipeline.training.phases import Schedule, optimiser
from pipeline.training.processes import divided

SIZES = {"word_dim", "hidden", "dim", "text_encoder", "text_pool"}


def prepare(settings: Settings, inputs: Inputs, device: torch.device) -> TrainingJob:
    """The network with its first weights, its data and phases; the generators must be seeded.

    Args:
        settings: the section `vse` and the ranking loss.
        inputs: the vocabulary, image features and tables.
        device: where the training runs.

    Raises:
        WorkbenchError: artefacts that are missing, damaged or do not fit the settings.
    """
    config, training = settings.config, settings.config.training
    used: dict[str, Any] = {"loss": settings.loss, "seed": settings.seed}
    used |= {"ranking": settings.ranking.model_dump(), "vse": config.model_dump()}
    vocabulary, features = open_inputs(inputs)
    sizes: dict[str, Any] = {"image_dim": features.shape()[1], "vocabulary_size": len(vocabulary)}
    sizes |= config.model_dump(include=SIZES)
    model = VSE(**sizes)
    if config.word_vectors == "pretrained":
        matrix = load_word_vectors(inputs.text, config.word_dim)
        model.initialise_words(torch.from_numpy(matrix))
    train, val = map(splits(inputs, vocabulary, features), ("train", "val"))
    if config.standardise_images:
        model.standardise_images(*feature_moments(FeatureRows(features, train.image_ids)))
    wrap = partial(PairLoss, reduction=training.reduction)
    both = Trained(model, wrap(chosen_loss(settings))).to(device)
    return TrainingJob(
        run=partial(
            fit,
            both,
            optimiser("adam", both.parameters(), training.lr),
            ranking_phases(settings, wrap, scores_and_groups),
            PairBatches(train, training.batch_size, settings.seed),
            lambda: score_vectors(model, val, device),
            Schedule(training.lr_step, training.lr_factor, training.clip, training.precision),
            advice=advice(settings, "vse"),
        ),
        architecture=sizes,
        params=used,
        inputs=identity(vocabulary, features),
        kept=Trained.KEPT,
    )


def scorer(
    checkpoint: Checkpoint, inputs: Inputs, device: torch.device
) -> Callable[[str], SplitScores]:
    """A function from a split's name to its scores; the sizes come from the checkpoint.

    Args:
        checkpoint: weights of the model.
        inputs: the vocabulary, image features and tables.
        device: where the model runs.

    Returns:
        Scores (N images, M captions), with the embeddings and ids.

    Raises:
        WorkbenchError: inputs that are not those of the training.
    """
    vocabulary, features = open_inputs(inputs)
    checkpoint.require(identity(vocabulary, features))
    model = checkpoint.build(VSE).to(device)
    split = splits(inputs, vocabulary, features)
    return lambda name: score_vectors(model, split(name), device)


def scores_and_groups(model: VSE, batch: Batch) -> tuple[torch.Tensor | None, ...]:
    """(B, B) cosines of a batch's images and captions, and which are no negatives."""
    scores = model(batch.images, batch.captions, batch.lengths, divided)
    return scores, batch.groups, None, batch.related
