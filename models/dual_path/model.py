"""The dual path as a system: features, then pixels in; ranking and instance losses; cosines out."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from models.backbone.file import check_size
from models.backbone.image_cnn import crops_of, open_network
from models.backbone.pixels import PixelRows
from models.base.model import Settings, TrainingJob
from models.base.phases import Trained, advice, chosen_loss
from models.base.scoring import score_vectors
from models.dual_path.batches import ImageBatch, ImageBatches
from models.dual_path.build import build
from models.dual_path.classes import read_pseudo_classes
from models.dual_path.instance import InstanceLoss
from models.dual_path.loss import DualPathLoss
from models.dual_path.network import DualPath
from models.dual_path.params import DualPathConfig, DualPathPhaseConfig
from models.dual_path.slots import SlotRows, encode_slots
from models.ranking.pairs import PairLoss
from pipeline.corpus.tables import load_images
from pipeline.corpus.vocabulary import Vocabulary, load_word_vectors
from pipeline.inputs.batches import Split, read_split
from pipeline.inputs.files import Inputs
from pipeline.inputs.sources import FeatureRows, feature_moments
from pipeline.inputs.words import identity, open_inputs
from pipeline.runtime.process import say
from pipeline.scores.file import SplitScores
from pipeline.storage.checkpoint import Checkpoint
from pipeline.storage.features import FeatureFile
from pipeline.training.loop import fit
from pipeline.training.phases import Objective, Phase, Schedule, Watched, optimiser
from pipeline.training.processes import divided

SIZES = {"word_dim", "text_cnn", "text_width", "text_pool", "hidden", "dim", "dropout", "flip"}


def prepare(settings: Settings, inputs: Inputs, device: torch.device) -> TrainingJob:
    """The network with its first weights, its data and phases; the generators must be seeded.

    Args:
        settings: the section `dual_path` and the ranking loss.
        inputs: the vocabulary, image features, their network, the classes and tables.
        device: where the training runs.

    Raises:
        WorkbenchError: artefacts that are missing, damaged or do not fit the settings.
    """
    config, training = settings.config, settings.config.training
    used: dict[str, Any] = {"loss": settings.loss, "seed": settings.seed}
    used |= {"ranking": settings.ranking.model_dump()}
    used |= {"dual_path": config.model_dump(mode="json", exclude={"training": {"workers"}})}
    vocabulary, features = open_inputs(inputs)
    network = open_network(inputs.required("network"), features)
    check_size(network.image_cnn, config.crop, "dual_path.crop")
    architecture = network.architecture | config.model_dump(include=SIZES)
    architecture |= {"vocabulary_size": len(vocabulary)}
    model = build(**architecture, image_cnn=network.image_cnn)
    reader = Reader(inputs, vocabulary, architecture, config.slots, config.alignment)
    train, val = reader.features("train", features), reader.features("val", features)
    tell_losses(train.captions)
    prepare_weights(model, config, inputs, train)
    labels = read_pseudo_classes(inputs.required("classes")).of(train.image_ids)
    crops = {
        "resize": config.resize,
        "crop": config.crop,
        "flip": config.flip,
        "workers": training.workers,
    }
    seen, val_seen = reader.pixels("train", **crops), reader.pixels("val")
    loss = DualPathLoss(
        PairLoss(chosen_loss(settings), training.reduction),
        InstanceLoss(
            int(labels.max()) + 1, config.dim, config.instance, config.sampled_classes, False
        ),
    )
    both = Trained(model, loss).to(device)
    data = {"features": (train, val), "pixels": (seen, val_seen)}
    steps = training.lr_step, training.lr_factor, training.clip, training.precision
    phases = phases_of(config, model, data, labels, settings.seed, device)
    return TrainingJob(
        run=partial(
            fit,
            both,
            optimiser(
                training.optimiser, both.parameters(), 1.0, training.momentum, training.weight_decay
            ),
            phases,
            ImageBatches(train, training.batch_size, settings.seed, labels),
            lambda: score_vectors(model, val, device),
            Schedule(*steps),
            advice=advice(settings, "dual_path"),
        ),
        architecture=architecture | {"slots": config.slots},
        params=used,
        inputs=identity(vocabulary, features),
        kept=Trained.KEPT,
    )


def scorer(
    checkpoint: Checkpoint, inputs: Inputs, device: torch.device
) -> Callable[[str], SplitScores]:
    """A function from a split's name to its scores, from pixels; all sizes are the checkpoint's.

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
    model = checkpoint.build(build).to(device)
    architecture = checkpoint.description.architecture
    reader = Reader(inputs, vocabulary, architecture, int(architecture["slots"]), "left")
    return lambda name: score_vectors(model, reader.pixels(name), device)


@dataclass(frozen=True)
class Reader:
    """Splits with images as features or as pixels, and captions in slots.

    Attributes:
        inputs: the tables of the corpus.
        vocabulary: what captions are read through.
        architecture: of the model, with the image network's name and sizes in pixels.
        slots: words of a caption that are read, at most.
        alignment: where a caption begins in its slots, shift or left.
    """

    inputs: Inputs
    vocabulary: Vocabulary
    architecture: Mapping[str, Any]
    slots: int
    alignment: str

    def features(self, name: str, features: FeatureFile) -> Split:
        """A split with the cached features of its images."""
        return self._split(name, partial(FeatureRows, features))

    def pixels(
        self, name: str, resize: int | None = None, crop: int | None = None, **options: Any
    ) -> Split:
        """A split with pixels.

        Args:
            name: of the split.
            resize: length of an image's shorter side, pixels; None: as for the cached features.
            crop: side of the square cut from it, pixels; None likewise.
            **options: of models.backbone.pixels.PixelRows.
        """
        crops = crops_of(self.architecture, resize, crop)
        table = load_images(self.inputs.images)
        return self._split(name, lambda ids: PixelRows(table, ids, crops, **options))

    def _split(self, name: str, images: Any) -> Split:
        captions = partial(
            encode_slots, self.vocabulary, slots=self.slots, alignment=self.alignment
        )
        return read_split(name, self.inputs.images, self.inputs.captions, images, captions)


def prepare_weights(model: DualPath, config: Any, inputs: Inputs, train: Split) -> None:
    """What first weights take from the data: word vectors, and the moments of the features.

    Args:
        model: its weights are set.
        config: the section `dual_path`.
        inputs: the folder of the vocabulary.
        train: the training split, its images as features.
    """
    if config.word_vectors == "pretrained":
        model.initialise_words(torch.from_numpy(load_word_vectors(inputs.text, config.word_dim)))
    if config.standardise_images:
        assert isinstance(train.images, FeatureRows)
        model.standardise_images(*feature_moments(train.images))


def phases_of(
    config: DualPathConfig,
    network: DualPath,
    data: Mapping[str, tuple[Split, Split]],
    labels: np.ndarray,
    seed: int,
    device: torch.device,
) -> list[Phase]:
    """The phases of params.yaml that have epochs.

    Args:
        config: the section `dual_path`.
        network: on its device.
        data: training and validation split, by what images are (`features` or `pixels`).
        labels: (N,) classes of the training images.
        seed: of the batches.
        device: where the network is.
    """

    def made(phase: DualPathPhaseConfig) -> Phase:
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
            ranks=phase.weights.ranking > 0,
        )

    return [made(phase) for phase in config.phases if phase.epochs]


def objective(weights: Any) -> Objective:
    """The loss of a batch with the weights of a phase; errors of classification are watched."""
    terms = weights.ranking, weights.image_instance, weights.text_instance

    def loss(model: Trained, batch: ImageBatch) -> Watched:
        vectors = model.network(batch.images, batch.captions, divided)
        errors: dict[str, torch.Tensor] = {}
        found = model.loss(*vectors, batch.groups, batch.labels, terms, errors, batch.related)
        return Watched(found, errors)

    return loss


def tell_losses(captions: Any) -> None:
    """Say how many captions did not fit their slots and how many words were left out."""
    if isinstance(captions, SlotRows) and (captions.clipped or captions.dropped):
        say(
            f"{captions.clipped:,} of {len(captions.slots):,} training captions are clipped to "
            f"{captions.slots.shape[1]} words, {captions.dropped:,} unknown words are left out"
        )
