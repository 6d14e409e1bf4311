"""VSE as a system: image features and word ids in, a ranking loss, cosines out."""

from functools import partial

import torch

from models.base.model import Settings, TrainingJob
from models.base.phases import Trained, chosen_loss, ranking_phases
from models.base.preparing import set_first_weights, training_job
from models.base.scoring import score_vectors, split_scorer
from models.ranking.pairs import PairLoss
from models.vse.network import VSE
from pipeline.inputs.batches import Batch, PairBatches
from pipeline.inputs.files import Inputs
from pipeline.inputs.words import WordInputs
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
    config, opened = settings.config, WordInputs(inputs)
    architecture = opened.sizes | config.model_dump(include=SIZES)
    model = VSE(**architecture)
    train, val = opened.split("train"), opened.split("val")
    set_first_weights(model, config, opened, train)
    wrap = partial(PairLoss, reduction=config.training.reduction)
    return training_job(
        "vse",
        settings,
        opened,
        architecture,
        Trained(model, wrap(chosen_loss(settings))).to(device),
        ranking_phases(settings, wrap, scores_and_groups),
        PairBatches(train, config.training.batch_size, settings.seed),
        lambda: score_vectors(model, val, device),
    )


# of a checkpoint, its inputs and a device: a function from a split's name to its scores
scorer = partial(split_scorer, WordInputs, VSE)


def scores_and_groups(model: VSE, batch: Batch) -> tuple[torch.Tensor | None, ...]:
    """(B, B) cosines of a batch's images and captions, and which are no negatives."""
    scores = model(batch.images, batch.captions, batch.lengths, divided)
    return scores, batch.groups, None, batch.related
