"""The two-branch network as a system: image and sentence vectors in, cosines out.

In a second phase images may be pixels (Wang et al. 2016, section 3.2).
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch

from models.base.model import Settings, TrainingJob
from models.base.phases import Trained, by_own_loss, chosen_loss, ranking_phases
from models.base.preparing import training_job
from models.base.scoring import score_vectors, split_scorer
from models.two_branch.batches import NeighbourBatches, Neighbourhood
from models.two_branch.loss import StructureLoss
from models.two_branch.network import TwoBranch, build, sees_pixels
from pipeline.evaluation.score_file import SplitScores
from pipeline.inputs.files import Inputs
from pipeline.inputs.sources import FeatureRows, VectorInputs
from pipeline.storage.checkpoint import Checkpoint
from pipeline.training.phases import Phase
from pipeline.training.processes import divided

FINE_TUNING = "fine_tuning"
CROPS = {"resize", "crop", "flip", "workers"}


def prepare(settings: Settings, inputs: Inputs, device: torch.device) -> TrainingJob:
    config, opened = settings.config, VectorInputs(inputs)
    sizes: dict[str, Any] = opened.sizes | config.sizes
    tuned: dict[str, Any] = {}
    if config.fine_tuning.epochs:
        from models.backbone.image_cnn import network_to_tune  # torchvision takes seconds to load

        key = "two_branch.fine_tuning.crop"
        network, entries = network_to_tune(inputs, opened.features, config.fine_tuning.crop, key)
        sizes |= entries | {"image_views": network.preprocessing.views}
        tuned = {"image_cnn": network.backbone}
    model = build(**sizes, **tuned, dropout=config.dropout)
    train, val = opened.split("train"), opened.split("val")
    if config.standardise_images:
        model.image_standardise.fit(*opened.images(train.image_ids).moments())
    if config.standardise_sentences:
        of_captions = FeatureRows(opened.sentences, train.caption_ids)
        model.sentence_standardise.fit(*of_captions.moments())
    both = Trained(model, StructureLoss(chosen_loss(settings), **config.terms)).to(device)
    wrap = partial(StructureLoss, **config.terms)
    phases = ranking_phases(settings, wrap, embeddings_and_groups)
    if tuned:
        phases.append(fine_tuning(settings, model, opened, sizes, device))
    return training_job(
        "two_branch",
        settings,
        opened,
        sizes,
        both,
        phases,
        NeighbourBatches(train, config.training.batch_size, settings.seed, *config.extra),
        lambda: score_vectors(model, val, device),
        unread={FINE_TUNING: {"workers"} if tuned else True},
    )


def scorer(
    checkpoint: Checkpoint, inputs: Inputs, device: torch.device
) -> Callable[[str], SplitScores]:
    """As models.base.scoring.split_scorer; of pixels, where the network was tuned on them."""
    sizes, images = checkpoint.description.architecture, None
    if sees_pixels(sizes):
        from models.backbone.image_cnn import pixel_source  # torchvision takes seconds to load

        images = pixel_source(inputs, sizes)
    return split_scorer(VectorInputs, build, checkpoint, inputs, device, images=images)


def fine_tuning(
    settings: Settings,
    model: TwoBranch,
    opened: VectorInputs,
    architecture: Mapping[str, Any],
    device: torch.device,
) -> Phase:
    """The epochs from pixels, in which the image CNN is trained with the branches."""
    from models.backbone.image_cnn import pixel_source

    tuning = settings.config.fine_tuning
    source = partial(pixel_source, opened.files, architecture)
    train = opened.split("train", source(**tuning.model_dump(include=CROPS)))
    extra: tuple[int, int] = settings.config.extra
    val = opened.split("val", source(workers=tuning.workers))
    return Phase(
        name=FINE_TUNING,
        epochs=tuning.epochs,
        objective=by_own_loss(embeddings_and_groups),
        batches=NeighbourBatches(train, tuning.batch_size, settings.seed, *extra, ahead=True),
        prepare=lambda both: both.network.image_cnn.requires_grad_(True),
        lr=tuning.lr,
        score=lambda: score_vectors(model, val, device),
    )


def embeddings_and_groups(
    model: TwoBranch, batch: Neighbourhood
) -> tuple[torch.Tensor | None, ...]:
    """Unit rows of a batch's images (I, K) and captions (C, K), and which are no negatives."""
    embedded = model(batch.images, batch.captions, divided)
    return *embedded, batch.image_groups, batch.caption_groups, batch.related
