"""The dual path: an image CNN and a text CNN into one space, trained by naming the instance that an
image or a caption belongs to, then by ranking, too (Zheng et al. 2020).

In the paper's stage I images are cached features and the image CNN does not run; in stage II they
are pixels, and it is trained. It is the very network that made the features (`TunedImages`), so
that an image has the same vector in both. An epoch is a pass over the images (`ImageBatches`), as
images are what is classified: classes.py says which class each is in, instance.py has the loss. The
text CNN and captions in slots are in text.py.
"""

from collections.abc import Iterable, Iterator
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
import torch
from pydantic import Field
from pydantic_core import InitErrorDetails
from torch import Tensor, nn

from models.backbone.image_cnn import Architecture, TunedImages, pixel_source, with_image_cnn
from models.base import Model, Pairs, Run
from models.dual_path.classes import read_pseudo_classes
from models.dual_path.instance import InstanceLoss
from models.dual_path.text import CaptionSlots, SlotRows, TextCNN
from models.layers.linear import Standardise
from models.layers.pixels import SeesPixels
from models.ranking import LOSSES
from pipeline.features.data import Inputs, RetrievalData
from pipeline.features.split import Batch, Split, prefetch
from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.runtime.process import say
from pipeline.runtime.section import (
    Count,
    Name,
    Natural,
    NonNegative,
    Positive,
    Section,
    Share,
    WeightsSection,
    cross_check,
    one_of,
    wrong_value,
    wrong_whole,
)
from pipeline.training.params import Batch as BatchSize
from pipeline.training.params import SharedTraining, WordsConfig
from pipeline.training.trainer import Loss, Phase

Part = Literal["text", "words", "image_head", "image_cnn"]
PARTS: tuple[Part, ...] = ("text", "words", "image_head", "image_cnn")
BUT_THE_CNN: tuple[Part, ...] = ("text", "words", "image_head")


# ---- the section of params.yaml


class StageWeightsConfig(WeightsSection):
    """Lambda_1 to lambda_3 of eq. 9; a term of weight 0 is left out."""

    ranking: NonNegative
    image_instance: NonNegative
    text_instance: NonNegative


class DualPathPhaseConfig(Section):
    """A stretch of epochs with its trained parts, loss terms and learning rate."""

    name: Name
    epochs: Natural
    images: Literal["features", "pixels"]
    train: Annotated[tuple[Part, ...], Field(min_length=1, strict=False)]  # others are frozen
    weights: StageWeightsConfig
    loss: Annotated[str, one_of(LOSSES)] | None = None  # the ranking term; None: that of the run
    lr: Positive
    stop_below: Share  # ends when three epochs lower the mean loss by a smaller share; 0: never

    @cross_check
    def _cnn_sees_pixels(self) -> Iterator[InitErrorDetails]:
        if self.images == "features" and "image_cnn" in self.train:
            yield wrong_whole("train", "image_cnn can be trained on images = 'pixels' only")


PHASES = (
    DualPathPhaseConfig(
        name="stage_1",
        epochs=26,
        images="features",
        train=BUT_THE_CNN,
        weights=StageWeightsConfig(ranking=1.0, image_instance=1.0, text_instance=1.0),
        lr=0.004,
        stop_below=0.01,
    ),
    DualPathPhaseConfig(
        name="stage_2",
        epochs=1,
        images="pixels",
        train=PARTS,
        weights=StageWeightsConfig(ranking=1.0, image_instance=1.0, text_instance=1.0),
        lr=0.0001,
        stop_below=0.0,
    ),
)


class DualPathTrainingConfig(SharedTraining):
    """Epochs and learning rates are those of the phases."""

    batch_size: BatchSize  # images, each with one caption (32)
    accumulate: Count  # batches whose gradients make a step
    lr_step: Count  # epochs of a phase after which its rate falls
    workers: Natural = 2  # threads that decode images; decides no result


class DualPathConfig(WordsConfig):
    """The section `dual_path` of params.yaml; the paper's values are in parentheses."""

    dim: Count = 512  # K of the joint space (2048)
    hidden: Count = 1024  # width between the two layers of a head (2048)
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.2  # of a head's hidden activations (0.75)
    slots: Count = 32  # words of a caption (32)
    alignment: Literal["shift", "left"] = "shift"  # where a caption begins in training
    text_cnn: Literal["resnet18", "resnet50", "resnet152"] = "resnet18"
    text_width: Count = 32  # of the text CNN's first stage (64)
    text_pool: Literal["max", "mean"] = "mean"  # over the slots that are left
    instance: Literal["separate", "sum"] = "separate"  # sum: eq. 11 and 12
    sampled_classes: Natural = 0  # that stand for all others of the instance loss; 0: all classes
    margin: Positive = 0.2  # (1, for one negative)
    resize: Count = 128  # pixels, as in image_features (256)
    crop: Count = 112  # side of the random crop in training, pixels (224)
    flip: bool = False  # mirror crops at random, and average with mirror images in evaluation
    phases: Annotated[tuple[DualPathPhaseConfig, ...], Field(min_length=1, strict=False)] = PHASES
    training: DualPathTrainingConfig = DualPathTrainingConfig(
        batch_size=128, accumulate=1, lr_step=20, clip=0.0, reduction="mean", workers=2
    )

    @cross_check
    def _crop_and_phases(self) -> Iterator[InitErrorDetails]:
        if self.crop > self.resize:
            text = f"must not exceed dual_path.resize = {self.resize}"
            yield wrong_value("crop", self.crop, text)
        phases = [phase for phase in self.phases if phase.epochs]
        if not phases:
            yield wrong_whole("phases", "none has epochs; at least one must")
        elif "image_cnn" in phases[0].train:
            yield wrong_whole(
                "phases",
                f"{phases[0].name!r} comes first and trains image_cnn while the other parts are "
                "random; begin with a phase that leaves image_cnn out",
            )
        batches = self.training.accumulate
        if batches == 1:
            return
        for phase in phases:
            if phase.weights.ranking:
                text = (
                    f"the ranking loss of {phase.name!r} takes its negatives from the batch, so "
                    "small batches do not add up to a large one; raise batch_size"
                )
                yield wrong_value("training.accumulate", batches, text)
        if self.sampled_classes:
            text = (
                f"must be 1 with dual_path.sampled_classes = {self.sampled_classes}, which are "
                "drawn for each batch"
            )
            yield wrong_value("training.accumulate", batches, text)


# ---- the sampler


class ImageBatches:
    """Training batches by image: every epoch holds every image once, with a caption drawn anew.

    A last batch of one image, which has no negatives, is left out. Everything random follows from
    the seed, the epoch and the step.

    Args:
        split: N images and their captions; an image without any gets one of its group.
        size: Images per batch, at least 2.
        seed: Of the run.
        labels: (N,) classes of the images, from 0 on.

    Raises:
        WorkbenchError: Fewer than two images, or a group without a caption.
    """

    def __init__(self, split: Split, size: int, seed: int, labels: np.ndarray) -> None:
        images = len(split.image_ids)
        if images < 2:
            raise WorkbenchError(f"{images} training images: at least 2 are needed to train")
        self.split = split
        self.size = size
        self.seed = seed
        self.labels = labels
        self.steps = images // size + (images % size > 1)
        self.groups = split.groups
        self.captions = captions_of_images(split)

    def epoch(self, epoch: int, first: int = 0) -> Iterator[Batch]:
        """The batches of an epoch, made in a thread ahead of their use.

        Args:
            epoch: Its number, from 0.
            first: Batches to leave out, which an interrupted training has seen.

        Returns:
            `steps` batches, less those that are left out.
        """
        order = np.random.default_rng([self.seed, epoch]).permutation(len(self.groups))
        steps = range(first, self.steps)
        yield from prefetch(lambda step: self.batch(order, epoch, step), steps)

    def batch(self, order: np.ndarray, epoch: int, step: int) -> Batch:
        """One batch of an epoch.

        Args:
            order: (N,) rows of the images as the epoch has them.
            epoch: Its number, from 0.
            step: Number of the batch in the epoch, from 0.

        Returns:
            B images, at most `size`, each with one caption in its row, and their classes.
        """
        rows = order[step * self.size : (step + 1) * self.size]
        # 1 + step: numpy takes [seed, epoch, 0] for [seed, epoch], which has made the order
        generator = np.random.default_rng([self.seed, epoch, 1 + step])
        choices = [self.captions[row] for row in rows]
        shares = generator.random(len(rows))
        pairs = zip(choices, shares, strict=True)
        captions = np.array([own[int(share * len(own))] for own, share in pairs])
        groups = torch.from_numpy(self.groups[rows])
        return Batch(
            images=self.split.images(rows, generator),
            captions=self.split.captions(captions, generator),
            image_groups=groups,
            caption_groups=groups,
            related=self.split.related(rows, captions),
            labels=torch.from_numpy(self.labels[rows]),
        )


def captions_of_images(split: Split) -> list[np.ndarray]:
    """For each of N images the rows of the captions it may be trained with: its own, or where it
    has none those of its group; WorkbenchError naming groups without captions."""
    groups = split.groups
    own = rows_by_key(split.described, len(groups))
    of_group = rows_by_key(groups[split.described], int(groups.max()) + 1)
    bare = [number for number, rows in enumerate(of_group) if not len(rows)]
    if bare:
        names = np.unique(split.image_groups)[bare]
        raise WorkbenchError(
            f"{len(bare)} groups of training images have no caption: {listing(names)}",
            "give each group a caption or remove its images from the corpus",
        )
    return [rows if len(rows) else of_group[group] for rows, group in zip(own, groups, strict=True)]


def rows_by_key(keys: np.ndarray, count: int) -> list[np.ndarray]:
    """Where each key occurs.

    Args:
        keys: (M,) integers in [0, count).
        count: How many keys there may be.

    Returns:
        For each key its places in `keys`, in their order.
    """
    order = np.argsort(keys, kind="stable")
    return np.split(order, np.searchsorted(keys[order], np.arange(1, count)))


# ---- the model


class DualPath(Model, SeesPixels):
    """Two CNNs with equal heads (Zheng et al. 2020, figure 2).

    An embedding is f (B, K) as the heads give it: the instance loss takes it so, and `index`
    divides it by its length for cosines (section 6.2).

    Args:
        config: The section of params.yaml.
        vocabulary_size: V; word 0 is an empty slot.
        **image: D of the image features (`image_dim`), and how the image CNN is built: the entries
            `image_...` of models.backbone.image_cnn. Its weights come from a file: in a training
            that of the features' network, else the checkpoint.
    """

    Config = DualPathConfig
    NEEDS: ClassVar = {
        "features": "data/features/image.h5",
        "text": "data/vocabulary",
        "classes": "data/features/pseudo_classes.h5",
        "network": "data/checkpoints/image_network.safetensors",
    }
    TRAINING_KEYS = Model.TRAINING_KEYS | {
        "alignment",
        "instance",
        "sampled_classes",
        "resize",
        "crop",
        "phases",
    }

    def __init__(self, config: DualPathConfig, vocabulary_size: int, **image: Any) -> None:
        super().__init__(config)
        self.image_architecture: Architecture = image
        built = with_image_cnn(**image)
        self.text = TextCNN(
            vocabulary_size=vocabulary_size,
            word_dim=config.word_dim,
            depth=config.text_cnn,
            width=config.text_width,
            pool=config.text_pool,
        )
        self.text_head = head(self.text.outputs, config.hidden, config.dim, config.dropout)
        self.image_standardise = Standardise(built["image_dim"])
        self.image_head = head(built["image_dim"], config.hidden, config.dim, config.dropout)
        self.see_through(built["image_cnn"], built["mean"], built["deviation"])
        self.train_parts(PARTS)

    @classmethod
    def open_data(
        cls, config: DualPathConfig, files: Inputs, in_memory: bool = True
    ) -> RetrievalData:
        """Image features with their network, and captions in slots.

        Args:
            config: The section of params.yaml.
            files: The artefacts of NEEDS; classes and network are read in training alone.
            in_memory: Whether features are read into memory where they fit.

        Returns:
            The data, whose sizes are the arguments of the constructor.

        Raises:
            WorkbenchError: The features are no vectors, or there is no vocabulary.
        """
        images = TunedImages(files, config.crop, "dual_path.crop", in_memory)
        return RetrievalData(
            files, images, CaptionSlots(files.text, config.slots, config.alignment)
        )

    # ---- embedding

    def embed_images(self, images: Tensor) -> Tensor:  # type: ignore[override]
        """f (B, K) of features (B, D) or of pixels (B, 3, S, S) uint8."""
        if images.ndim == 2:
            vectors: Tensor = self.image_head(self.image_standardise(images))
            return vectors
        vectors = self.embed_images(self.image_features(images))
        if self.training or not self.config.flip:
            return vectors
        mirrored = self.embed_images(self.image_features(images.flip(-1)))
        return (vectors + mirrored) / 2  # section 6.2

    def embed_captions(self, captions: Tensor) -> Tensor:  # type: ignore[override]
        """f (B, K) of captions as word ids in slots (B, S)."""
        vectors: Tensor = self.text_head(self.text(captions))
        return vectors

    def scored_split(self, data: RetrievalData, name: str) -> Split:
        """A split whose images are pixels, cut as feature extraction cuts them.

        Args:
            data: Of the run.
            name: train, val or test.

        Returns:
            The split, whose images are (B, 3, S, S) uint8; S is that of the image network.

        Raises:
            WorkbenchError: An image is extremely long, or a caption has no known word.
        """
        return data.read_split(name, pixel_source(data.files, self.image_architecture))

    # ---- training

    def start(self, data: RetrievalData, run: Run) -> None:
        """Take first weights from the data and the image network, and make the classifier of all
        training images.

        Args:
            data: Of the run.
            run: Names the ranking loss.

        Raises:
            WorkbenchError: A training image has no class.
        """
        captions = data.split("train").captions
        assert isinstance(captions, SlotRows)
        if captions.clipped or captions.dropped:
            count, slots = captions.slots.shape
            say(
                f"{captions.clipped:,} of {count:,} training captions are clipped to {slots} "
                f"words, {captions.dropped:,} unknown words are left out"
            )
        super().start(data, run)
        assert isinstance(data.images, TunedImages)
        assert self.image_cnn is not None
        network, _ = data.images.network
        self.image_cnn.load_state_dict(network.backbone.state_dict())
        for section in self.config.phases:
            if section.loss is not None:
                self.criterion[f"ranking_{section.loss}"] = self.ranking_loss(run, section.loss)
        self.criterion["instance"] = InstanceLoss(
            classes=int(train_labels(data).max()) + 1,
            dim=self.config.dim,
            instance=self.config.instance,
            sampled=self.config.sampled_classes,
        )

    def phases(self, data: RetrievalData, run: Run) -> list[Phase]:
        """The phases of params.yaml that have epochs. The last one's best epoch is kept, as the
        paper's stage II has no choice of stage I.

        Args:
            data: What they are trained and validated on.
            run: Has the seed.

        Returns:
            A phase for each section with epochs, in their order.

        Raises:
            WorkbenchError: There is too little to train on (ImageBatches).
        """
        labels = train_labels(data)
        sections = [section for section in self.config.phases if section.epochs]
        phases = []
        for section in sections:
            train, val = self.open_splits(data, section.images)
            batches = ImageBatches(train, self.config.training.batch_size, run.seed, labels)
            phase = Phase(
                name=section.name,
                epochs=section.epochs,
                batches=batches,
                val=val,
                ranking=self.criterion[f"ranking_{section.loss}" if section.loss else "ranking"],
                section=section,
                lr=section.lr,
                stop_below=section.stop_below,
                selects=section is sections[-1],
                ranks=section.weights.ranking > 0,
            )
            phases.append(phase)
        return phases

    def open_splits(self, data: RetrievalData, images: str) -> tuple[Split, Split]:
        """The training and the validation split of a phase.

        Args:
            data: Of the run.
            images: features, or pixels: in training random crops.

        Returns:
            Both splits; their images are (B, D) features or (B, 3, S, S) uint8 pixels.
        """
        if images == "features":
            return data.split("train"), data.split("val")
        config = self.config
        crops = pixel_source(
            data.files,
            self.image_architecture,
            resize=config.resize,
            crop=config.crop,
            flip=config.flip,
            workers=config.training.workers,
        )
        return data.read_split("train", crops), self.scored_split(data, "val")

    def unread(self) -> dict[str, set[str]]:
        """Threads that decode images decide no result."""
        return {"training": {"workers"}}

    def enter(self, phase: Phase) -> None:
        """Freeze what the phase does not train."""
        self.train_parts(phase.section.train)

    def train_parts(self, parts: Iterable[str]) -> None:
        """Train some of PARTS: text, the text CNN and its head; words, its word lookup; image_head;
        image_cnn. Others are frozen: no gradients, and evaluation mode under train()."""
        chosen = set(parts)
        self.frozen: tuple[Part, ...] = tuple(part for part in PARTS if part not in chosen)
        for part in PARTS:
            for module in self.modules_of(part):
                module.requires_grad_(part in chosen)
        self.train(self.training)

    def modules_of(self, part: Part) -> list[nn.Module]:
        """The modules whose weights belong to one of PARTS."""
        assert self.image_cnn is not None
        modules: dict[Part, list[nn.Module]] = {
            "text": [self.text.blocks, self.text_head],
            "words": [self.text.words],
            "image_head": [self.image_head],
            "image_cnn": [self.image_cnn],
        }
        return modules[part]

    def train(self, mode: bool = True) -> Self:
        """Set training mode, except for frozen parts."""
        super().train(mode)
        for part in self.frozen:
            for module in self.modules_of(part):
                module.eval()
        return self

    def loss(
        self, images: Tensor, captions: Tensor, pairs: Pairs | None, batch: Batch, phase: Phase
    ) -> Loss:
        """The weighted sum of the ranking loss of cosines (eq. 4) and the instance losses of images
        and captions as they are (eq. 5 to 8); eq. 9. A term of weight 0 is left out.

        Args:
            images: f (B, K).
            captions: f (B, K), row b of both a pair.
            pairs: Cosines (B, B).
            batch: Has classes, and says which pairs are no negatives.
            phase: Its section has the weights, lambda_1 to lambda_3.

        Returns:
            One term, and as figures the errors of classification, where there are instance terms.
        """
        weights = phase.section.weights
        total = images.new_zeros((), dtype=torch.float32)
        errors: dict[str, Tensor] = {}
        if weights.ranking:
            ranking = super().loss(images, captions, pairs, batch, phase)
            total = total + weights.ranking * ranking.value
        if weights.image_instance or weights.text_instance:
            instance = self.criterion["instance"]
            of_images, of_captions = instance(images, captions, batch.labels, errors)
            total = total + weights.image_instance * of_images
            total = total + weights.text_instance * of_captions
        return Loss({"": total}, errors)


def train_labels(data: RetrievalData) -> np.ndarray:
    """(N,) classes of the training images; WorkbenchError for an image without one."""
    classes = read_pseudo_classes(data.files.required("classes"))
    return classes.labels_of(data.split("train").image_ids)


def head(inputs: int, hidden: int, outputs: int, dropout: float) -> nn.Sequential:
    """FC, batch norm, ReLU, dropout, FC, with He's weights; no bias before the batch norm, which
    would take it away again.

    Args:
        inputs: Width of what comes in.
        hidden: Width between the two layers.
        outputs: Width of the result.
        dropout: Share of hidden activations set to zero in training.

    Returns:
        From (B, inputs) to (B, outputs).
    """
    first = nn.Linear(inputs, hidden, bias=False)
    last = nn.Linear(hidden, outputs)
    nn.init.kaiming_normal_(first.weight, nonlinearity="relu")
    nn.init.xavier_uniform_(last.weight)
    nn.init.zeros_(last.bias)
    return nn.Sequential(first, nn.BatchNorm1d(hidden), nn.ReLU(), nn.Dropout(dropout), last)
