"""The dual path as a system: features, then pixels in; ranking and instance losses; cosines out."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch

from models.backbone.image_cnn import network_to_tune, pixel_source
from models.base.model import Settings, TrainingJob
from models.base.phases import Trained, chosen_loss
from models.base.preparing import set_first_weights, training_job
from models.base.scoring import score_vectors, split_scorer
from models.dual_path.batches import ImageBatch, ImageBatches
from models.dual_path.classes import read_pseudo_classes
from models.dual_path.instance import InstanceLoss
from models.dual_path.loss import DualPathLoss
from models.dual_path.network import DualPath, build
from models.dual_path.params import DualPathConfig, DualPathPhaseConfig
from models.dual_path.slots import SlotInputs
from models.ranking.pairs import PairLoss
from pipeline.evaluation.score_file import SplitScores
from pipeline.inputs.batches import Split
from pipeline.inputs.files import Inputs
from pipeline.runtime.process import say
from pipeline.storage.checkpoint import Checkpoint
from pipeline.training.phases import Objective, Phase, Watched
from pipeline.training.processes import divided

SIZES = {"word_dim", "text_cnn", "text_width", "text_pool", "hidden", "dim", "dropout", "flip"}
CROPS = {"resize", "crop", "flip"}


def prepare(settings: Settings, inputs: Inputs, device: torch.device) -> TrainingJob:
    config, training = settings.config, settings.config.training
    opened = SlotInputs(inputs, config.slots, config.alignment)
    tuned = inputs, opened.features, config.crop, "dual_path.crop"
    network, architecture = network_to_tune(*tuned)
    architecture |= config.model_dump(include=SIZES) | {"vocabulary_size": len(opened.vocabulary)}
    model = build(**architecture, image_cnn=network.backbone)
    train, val = opened.split("train"), opened.split("val")
    texts: Any = train.captions
    if texts.clipped or texts.dropped:
        say(
            f"{texts.clipped:,} of {len(texts.slots):,} training captions are clipped to "
            f"{texts.slots.shape[1]} words, {texts.dropped:,} unknown words are left out"
        )
    set_first_weights(model, config, opened, train)
    labels = read_pseudo_classes(inputs.required("classes")).of(train.image_ids)
    crops = config.model_dump(include=CROPS) | {"workers": training.workers}
    seen = opened.split("train", pixel_source(inputs, architecture, **crops))
    val_seen = opened.split("val", pixel_source(inputs, architecture))
    loss = DualPathLoss(
        PairLoss(chosen_loss(settings), training.reduction),
        InstanceLoss(int(labels.max()) + 1, config.dim, config.instance, config.sampled_classes),
    )
    both = Trained(model, loss).to(device)
    data = {"features": (train, val), "pixels": (seen, val_seen)}
    return training_job(
        "dual_path",
        settings,
        opened,
        architecture | {"slots": config.slots},
        both,
        phases_of(config, model, data, labels, settings.seed, device),
        ImageBatches(train, training.batch_size, settings.seed, labels),
        lambda: score_vectors(model, val, device),
        unread={"training": {"workers"}},
    )


def scorer(
    checkpoint: Checkpoint, inputs: Inputs, device: torch.device
) -> Callable[[str], SplitScores]:
    """As models.base.scoring.split_scorer, from pixels."""
    sizes = checkpoint.description.architecture
    opened = partial(SlotInputs, slots=int(sizes["slots"]), in_memory=False)
    images = pixel_source(inputs, sizes)
    return split_scorer(opened, build, checkpoint, inputs, device, images=images)


def phases_of(
    config: DualPathConfig,
    network: DualPath,
    data: Mapping[str, tuple[Split, Split]],
    labels: np.ndarray,
    seed: int,
    device: torch.device,
) -> list[Phase]:
    """The phases of params.yaml that have epochs; the last one's best epoch is kept, as the paper's
    stage II has no choice of stage I. data: training and validation split, by what
    images are (`features` or `pixels`); labels: (N,) classes of the training images."""

    def phase_of(phase: DualPathPhaseConfig) -> Phase:
        train, val = data[phase.images]
        return Phase(
            name=phase.name,
            epochs=phase.epochs,
            objective=objective(phase.weights),
            batches=ImageBatches(train, config.training.batch_size, seed, labels),
            prepare=lambda model: model.network.trainable(phase.train),
            lr=phase.lr,
            stop_below=phase.stop_below,
            score=lambda: score_vectors(network, val, device),
            selects=phase is run[-1],
            ranks=phase.weights.ranking > 0,
        )

    run = [phase for phase in config.phases if phase.epochs]
    return [phase_of(phase) for phase in run]


def objective(weights: Any) -> Objective:
    """The loss of a batch with the weights of a phase; errors of classification are watched."""
    terms = weights.ranking, weights.image_instance, weights.text_instance

    def loss(model: Trained, batch: ImageBatch) -> Watched:
        vectors = model.network(batch.images, batch.captions, divided)
        errors: dict[str, torch.Tensor] = {}
        total = model.loss(*vectors, batch.groups, batch.labels, terms, errors, batch.related)
        return Watched(total, errors)

    return loss
