"""The two-branch network as a system: image and sentence vectors in, cosines out.

In a second phase, where params.yaml asks for it, images are pixels: the network behind their
vectors is put in front of the image branch and trained with it (Wang et al. 2016, section 3.2).
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch

from models.base.model import Settings, TrainingJob
from models.base.phases import Trained, advice, by_own_loss, chosen_loss, ranking_phases
from models.base.scoring import score_vectors
from models.ranking.loss import RankingLoss
from models.two_branch.batches import NeighbourBatches, Neighbourhood
from models.two_branch.build import build, sees_pixels
from models.two_branch.loss import StructureLoss
from models.two_branch.network import TwoBranch
from models.two_branch.params import TwoBranchConfig
from pipeline.inputs.batches import Split
from pipeline.inputs.files import Inputs
from pipeline.inputs.sources import FeatureRows, feature_moments, identity, open_inputs, splits
from pipeline.scores.file import SplitScores
from pipeline.storage.checkpoint import Checkpoint
from pipeline.storage.features import FeatureFile
from pipeline.training.loop import fit
from pipeline.training.phases import Phase, Schedule, optimiser
from pipeline.training.processes import divided

FINE_TUNING = "fine_tuning"
CROPS = {"resize", "crop", "flip", "workers"}


def prepare(settings: Settings, inputs: Inputs, device: torch.device) -> TrainingJob:
    """The network with its first weights, its data and phases; the generators must be seeded.

    Args:
        settings: the section `two_branch` and the ranking loss.
        inputs: the sentence vectors, image features and tables; for the fine-tuning the network
            behind the features.
        device: where the training runs.

    Raises:
        WorkbenchError: artefacts that are missing, damaged or do not fit the settings.
    """
    config, training = settings.config, settings.config.training
    used: dict[str, Any] = {"loss": settings.loss, "seed": settings.seed}
    used |= {"ranking": settings.ranking.model_dump()}
    used |= {"two_branch": config.model_dump(exclude={FINE_TUNING: unread(config)})}
    features, sentences = open_inputs(inputs)
    sizes: dict[str, Any] = {"image_dim": features.shape()[1]}
    sizes |= {"sentence_dim": sentences.shape()[1]}
    hidden = config.hidden if config.branches == "nonlinear" else 0
    sizes |= {"hidden": hidden, "dim": config.dim, "batch_norm": int(config.batch_norm)}
    tuned: dict[str, Any] = {}
    if config.fine_tuning.epochs:
        from models.two_branch.pixels import open_image_cnn

        network = open_image_cnn(inputs, features, config.fine_tuning.crop)
        sizes, tuned = sizes | network.architecture, {"image_cnn": network.image_cnn}
    model = build(**sizes, **tuned, dropout=config.dropout)
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
    phases = ranking_phases(settings, wrap, embeddings_and_groups)
    if tuned:
        phases.append(fine_tuning(settings, model, inputs, sentences, sizes, device))
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
            phases,
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
    model = checkpoint.build(build).to(device)
    split = splits(inputs, features, sentences)
    if sees_pixels(checkpoint.description.architecture):
        from models.two_branch.pixels import pixel_splits

        split = pixel_splits(inputs, sentences, checkpoint.description.architecture)
    return lambda name: score_vectors(model, split(name), device)


def unread(config: TwoBranchConfig) -> set[str] | bool:
    """What of the section's fine_tuning decides no result: all of it where it has no epochs."""
    return {"workers"} if config.fine_tuning.epochs else True


def fine_tuning(
    settings: Settings,
    model: TwoBranch,
    inputs: Inputs,
    sentences: FeatureFile,
    architecture: Mapping[str, Any],
    device: torch.device,
) -> Phase:
    """The epochs from pixels, in which the image CNN is trained with the branches.

    Args:
        settings: the section `two_branch` and the ranking loss.
        model: on its device, with its image CNN.
        inputs: the tables, and with them the image files.
        sentences: of the captions, (M, E).
        architecture: of the model.
        device: where the model is.
    """
    from models.two_branch.pixels import pixel_splits

    config, tuning = settings.config, settings.config.fine_tuning
    split = partial(pixel_splits, inputs, sentences, architecture)
    train = split(**tuning.model_dump(include=CROPS))("train")
    val = split(workers=tuning.workers)("val")
    return Phase(
        name=FINE_TUNING,
        epochs=tuning.epochs,
        objective=by_own_loss(embeddings_and_groups),
        batches=training_batches(config, train, settings.seed, tuning.batch_size, ahead=True),
        prepare=lambda both: both.network.tune_image_cnn(),
        lr=tuning.lr,
        score=lambda: score_vectors(model, val, device),
    )


def training_batches(
    config: TwoBranchConfig,
    split: Split,
    seed: int,
    size: int | None = None,
    ahead: bool = False,
) -> NeighbourBatches:
    """Batches of random pairs, with one more caption of each image where captions are compared with
    each other, and one more image of each group where images are.

    Args:
        config: the section `two_branch`.
        split: the training images and captions.
        seed: of the draws.
        size: random pairs per batch, None: those of the section's training.
        ahead: whether batches are prepared in a thread.
    """
    return NeighbourBatches(
        split,
        size or config.training.batch_size,
        seed,
        extra_captions=int(config.weights.sentence_sentence > 0),
        extra_images=int(config.weights.image_image > 0),
        ahead=ahead,
    )


def embeddings_and_groups(
    model: TwoBranch, batch: Neighbourhood
) -> tuple[torch.Tensor | None, ...]:
    """Unit rows of a batch's images (I, K) and captions (C, K), and which are no negatives."""
    embedded = model(batch.images, batch.captions[0], divided)
    return *embedded, batch.image_groups, batch.caption_groups, batch.related
