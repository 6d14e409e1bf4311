"""The dual path as a system: features, then pixels in; ranking and instance losses; cosines out."""

from collections.abc import Callable
from typing import Any

import torch

from models.losses.dual_path import DualPathLoss
from models.losses.instance import InstanceLoss
from models.losses.ranking import RankingLoss
from pipeline.checkpoint import Checkpoint
from pipeline.image_batches import ImageBatches
from pipeline.optimisers import optimiser
from pipeline.phases import Schedule
from pipeline.pseudo_classes import read_pseudo_classes
from pipeline.score_file import SplitScores
from pipeline.scoring import score_vectors
from pipeline.sections import Params
from pipeline.sources import open_vectors
from pipeline.vocabulary import Vocabulary
from stages.systems import Inputs, TrainingJob
from stages.systems.dual_path_inputs import Reader, identity, prepare_weights
from stages.systems.dual_path_network import build, open_network
from stages.systems.dual_path_phases import Trained, phases_of, tell_losses

SIZES = {"word_dim", "text_cnn", "text_width", "text_pool", "hidden", "dim", "dropout", "flip"}


def prepare_training(params: Params, inputs: Inputs, device: torch.device) -> TrainingJob:
    """The network with its first weights, its data and phases; the generators must be seeded."""
    own, training, ranking = params.dual_path, params.dual_path.training, params.ranking
    used: dict[str, Any] = {"loss": params.loss, "seed": params.seed, "ranking": {"k": ranking.k}}
    used |= {"dual_path": own.model_dump(mode="json", exclude={"training": {"workers"}})}
    vocabulary, features = Vocabulary.load(inputs.text), open_vectors(inputs.features)
    network = open_network(inputs.required("network"), features, own.crop)
    architecture = network.architecture | own.model_dump(include=SIZES)
    architecture |= {"vocabulary_size": len(vocabulary)}
    model = build(**architecture, image_cnn=network.image_cnn)
    reader = Reader(inputs, vocabulary, architecture, own.slots, own.alignment)
    train, val = reader.features("train", features), reader.features("val", features)
    tell_losses(train.captions)
    prepare_weights(model, own, inputs, train)
    labels = read_pseudo_classes(inputs.required("classes")).of(train.image_ids)
    crops = {"resize": own.resize, "crop": own.crop, "flip": own.flip, "workers": training.workers}
    seen, val_seen = reader.pixels("train", **crops), reader.pixels("val")
    loss = DualPathLoss(
        RankingLoss(params.loss, own.margin, ranking.k, "mean"),
        InstanceLoss(int(labels.max()) + 1, own.dim, own.instance, own.sampled_classes, False),
    )
    both = Trained(model, loss).to(device)
    data = {"features": (train, val), "pixels": (seen, val_seen)}
    steps = training.lr_step, training.lr_factor, training.clip, training.precision
    phases = phases_of(own, model, data, labels, params.seed, device)
    return TrainingJob(
        model=both,
        optimiser=optimiser(
            training.optimiser, both.parameters(), 1.0, training.momentum, training.weight_decay
        ),
        phases=phases,
        batches=ImageBatches(train, training.batch_size, params.seed, labels),
        score_validation=lambda: score_vectors(model, val, device),
        schedule=Schedule(*steps),
        architecture=architecture | {"slots": own.slots},
        params=used,
        inputs=identity(vocabulary, features),
        kept="network.",
    )


def prepare_scoring(
    checkpoint: Checkpoint, inputs: Inputs, device: torch.device
) -> Callable[[str], SplitScores]:
    """A function from a split's name to its scores, from pixels; all sizes are the checkpoint's."""
    vocabulary, features = Vocabulary.load(inputs.text), open_vectors(inputs.features)
    checkpoint.require(identity(vocabulary, features))
    model = checkpoint.build(build).to(device)
    architecture = checkpoint.description.architecture
    reader = Reader(inputs, vocabulary, architecture, int(architecture["slots"]), "left")
    return lambda name: score_vectors(model, reader.pixels(name), device)
