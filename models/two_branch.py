"""The two-branch network (Wang et al. 2016): one perceptron per side into one space, trained by a
loss that also keeps neighbours of one kind together.

Images and sentences are vectors that are made beforehand. A training batch grows from random pairs
by more captions of their images and more images of their groups (`NeighbourBatches`), since
`StructureLoss` compares each kind with itself, too. In a last phase images may be pixels (section
3.2): the network that made their features is then in front of the image branch, and trained.

models/phrases has the same network for regions and phrases.
"""

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from pydantic import Field
from pydantic_core import InitErrorDetails
from torch import Tensor, nn

from models.base import Model, Pairs, Rows, Run
from models.layers.linear import Standardise, at_least_float32
from models.layers.pixels import SeesPixels
from models.losses import RankingLoss
from models.losses.knn_margin import KNNMargin
from models.ranking import make_loss
from pipeline.features.data import ImageKind, ImageVectors, Inputs, RetrievalData, SentenceVectors
from pipeline.features.split import Batch, Split, prefetch
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.section import (
    Count,
    Natural,
    NonNegative,
    Positive,
    Section,
    WeightsSection,
    cross_check,
    wrong_value,
)
from pipeline.training.params import TrainingConfig
from pipeline.training.trainer import Loss, Phase

FINE_TUNING = "fine_tuning"  # name of the phase, and of its section
SEEN_AT_ONCE = 32  # images, in evaluation: VGG holds 26 MB of maps for each of 224 x 224 pixels


# ---- the section of params.yaml


class TermWeightsConfig(WeightsSection):
    """Weights of the four terms of the loss (Wang et al. 2016, eq. 5); 0 leaves a term out."""

    image_to_sentence: NonNegative = 1.0
    sentence_to_image: NonNegative = 2.0
    image_image: NonNegative = 0.0
    sentence_sentence: NonNegative = 0.2


class FineTuningConfig(Section):
    """Epochs from pixels, in which the network behind the image features is trained, too."""

    epochs: Natural = 0
    lr: Positive = 0.0001
    batch_size: Annotated[int, Field(ge=2)] = 64
    resize: Count = 128  # pixels, as in image_features
    crop: Count = 112  # side of the random crop in training, pixels
    flip: bool = False  # mirror at random in training
    workers: Natural = 2  # threads that decode images; decides no result

    @cross_check
    def _crop_fits(self) -> Iterator[InitErrorDetails]:
        if self.crop > self.resize:
            text = f"must not exceed two_branch.fine_tuning.resize = {self.resize}"
            yield wrong_value("crop", self.crop, text)


class VectorBranchesConfig(Section):
    """Two branches on fixed vectors: widths, loss terms, optimisation; the paper's values are in
    parentheses."""

    branches: Literal["linear", "nonlinear"] = "nonlinear"  # one layer, or two
    hidden: Count = 512  # width between the layers (2048)
    dim: Count = 256  # K of the joint space (512)
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.5  # of hidden activations (0.5)
    batch_norm: bool = True  # after the last layer
    standardise_images: bool = True
    standardise_sentences: bool = False
    margin: Positive = 0.1  # of distances (0.1)
    weights: TermWeightsConfig = TermWeightsConfig()
    structure_k: Count = 50  # hardest negatives in the terms of one kind (50)
    training: TrainingConfig = TrainingConfig(
        epochs=12, batch_size=128, lr=0.001, lr_step=8, clip=0.0
    )

    @property
    def sizes(self) -> dict[str, int]:
        """What decides the network's shape beside the widths of its inputs, as checkpoints name it:
        hidden is 0 for the linear variant."""
        hidden = self.hidden if self.branches == "nonlinear" else 0
        return {"hidden": hidden, "dim": self.dim, "batch_norm": int(self.batch_norm)}

    @property
    def extra_captions(self) -> int:
        """Captions that an image brings into a batch for the term that compares captions."""
        return int(self.weights.sentence_sentence > 0)

    @property
    def extra_images(self) -> int:
        """Images that a group brings into a batch for the term that compares images."""
        return int(self.weights.image_image > 0)


class TwoBranchConfig(VectorBranchesConfig):
    """The section `two_branch` of params.yaml."""

    fine_tuning: FineTuningConfig = FineTuningConfig()


# ---- the model


class TwoBranch(Model, SeesPixels):
    """Two perceptrons (Wang et al. 2016, sections 2.1 and 3.1).

    Images are features (B, D). Where their network is tuned, or was, they may be pixels: crops (B,
    3, S, S) uint8, or C crops of each image (B, C, 3, S, S), whose features and those of their
    mirror images are averaged. That network stays in evaluation mode: its batch norms keep their
    moments and its dropout is off, so that it begins as the network of the cached features.

    Args:
        config: The section of params.yaml.
        image_dim: D of the image features.
        sentence_dim: E of the sentence vectors.
        **image: How the image network is built, the entries `image_...` of
            models.backbone.image_cnn; none without one.
    """

    Config: ClassVar[type[VectorBranchesConfig]] = TwoBranchConfig
    NEEDS: ClassVar = {
        "features": "data/features/image.h5",
        "text": "data/features/sentences.h5",
        "network": "data/checkpoints/image_network.safetensors",
    }

    def __init__(
        self, config: VectorBranchesConfig, image_dim: int, sentence_dim: int, **image: Any
    ) -> None:
        super().__init__(config)
        self.image_architecture = image | {"image_dim": image_dim}
        self.image_standardise = Standardise(image_dim)
        self.sentence_standardise = Standardise(sentence_dim)
        self.image_branch = branch(image_dim, **config.sizes, dropout=config.dropout)
        self.sentence_branch = branch(sentence_dim, **config.sizes, dropout=config.dropout)
        self.image_cnn = None
        if image:
            from models.backbone.image_cnn import with_image_cnn  # torchvision takes seconds

            with torch.random.fork_rng(devices=[]):  # its weights come from a file
                built = with_image_cnn(**self.image_architecture)
            self.see_through(built["image_cnn"], built["mean"], built["deviation"])

    @classmethod
    def open_data(
        cls, config: VectorBranchesConfig, files: Inputs, in_memory: bool = True
    ) -> RetrievalData:
        """Vectors of images and of sentences.

        Args:
            config: The section of params.yaml; with epochs of fine-tuning the network of the image
                features is read, too.
            files: The artefacts of NEEDS.
            in_memory: Whether vectors are read into memory where they fit.

        Returns:
            The data, whose sizes are the arguments of the constructor.
        """
        images: ImageKind = ImageVectors(files.features, in_memory)
        if isinstance(config, TwoBranchConfig) and config.fine_tuning.epochs:
            from models.backbone.image_cnn import SeenImages  # torchvision takes seconds to load

            key = "two_branch.fine_tuning.crop"
            images = SeenImages(files, config.fine_tuning.crop, key, in_memory)
        return RetrievalData(files, images, SentenceVectors(files.text, in_memory))

    def architecture(self, sizes: dict[str, Any]) -> dict[str, Any]:
        """What a checkpoint says of the network's shape.

        Args:
            sizes: Of the data.
        """
        return sizes | self.config.sizes

    @classmethod
    def read_settings(cls, section: dict[str, Any], architecture: dict[str, Any]) -> dict[str, Any]:
        """Settings of a checkpoint, in whose architecture a linear network has hidden = 0.

        Args:
            section: What the checkpoint keeps of the section of params.yaml.
            architecture: What it says of the network's shape, which counts where both speak.

        Returns:
            The settings.
        """
        shape = {"dim": architecture["dim"], "batch_norm": bool(architecture["batch_norm"])}
        if architecture["hidden"]:
            return section | shape | {"hidden": architecture["hidden"], "branches": "nonlinear"}
        return section | shape | {"branches": "linear"}

    # ---- embedding

    def train(self, mode: bool = True) -> "TwoBranch":
        """Set training mode, except for the image network."""
        super().train(mode)
        if self.image_cnn is not None:
            self.image_cnn.eval()
        return self

    def embed_images(self, images: Tensor) -> Tensor:  # type: ignore[override]
        """Features (B, D), or pixels, to vectors (B, K), which `index` makes unit vectors."""
        features = images if images.ndim == 2 else self.features_of_pixels(images)
        embedded: Tensor = self.image_branch(self.image_standardise(features))
        return embedded

    def features_of_pixels(self, pixels: Tensor) -> Tensor:
        """Crops (B, 3, S, S) uint8, or C of each image (B, C, 3, S, S), to features (B, D)."""
        see = self.image_features if pixels.ndim == 4 else self.mean_features
        if self.training or torch.compiler.is_exporting():
            return see(pixels)
        return torch.cat([see(part) for part in pixels.split(SEEN_AT_ONCE)])

    def embed_captions(self, captions: Tensor) -> Tensor:  # type: ignore[override]
        """Sentence vectors (B, E) to vectors (B, K)."""
        embedded: Tensor = self.sentence_branch(self.sentence_standardise(captions))
        return embedded

    def scored_split(self, data: RetrievalData, name: str) -> Split:
        """A split as evaluation reads it: its images are pixels where their network was tuned.

        Args:
            data: Of the run.
            name: train, val or test.

        Returns:
            The split, opened once where it has cached features.
        """
        if self.image_cnn is None:
            return data.split(name)
        from models.backbone.image_cnn import pixel_source

        return data.read_split(name, pixel_source(data.files, self.image_architecture))

    # ---- training

    def unread(self) -> Any:
        """Nothing of the fine-tuning decides a result where there is none, and its number of
        threads never does."""
        return {FINE_TUNING: True if self.image_cnn is None else {"workers"}}

    def start(self, data: RetrievalData, run: Run) -> None:
        """Take first weights from the data, and where it is tuned those of the image network.

        Args:
            data: Whose training split gives the moments of both sides.
            run: Names the ranking loss.
        """
        super().start(data, run)
        if self.config.standardise_sentences:
            captions: Any = data.split("train").captions
            self.sentence_standardise.fit(*captions.moments())
        if self.image_cnn is not None:
            images: Any = data.images
            network, _ = images.network
            self.image_cnn.load_state_dict(network.backbone.state_dict())

    def ranking_loss(self, run: Run, name: str) -> nn.Module:
        """The structure loss, whose terms across the views are a ranking loss.

        Args:
            run: Has the settings of all ranking losses.
            name: A file of models/losses.

        Returns:
            A StructureLoss of the section's weights.
        """
        ranking = make_loss(name, margin=self.config.margin, **run.ranking)
        return structure_loss(ranking, self.config, self.config.weights)

    def phases(self, data: RetrievalData, run: Run) -> list[Phase]:
        """The epochs of cached features, then those of pixels with a rate of their own.

        Args:
            data: What they are trained and validated on.
            run: Names the ranking loss.

        Returns:
            One to three phases, each of at least one epoch.
        """
        size = self.config.training.batch_size
        batches = self.neighbour_batches(data.split("train"), size, run)
        phases = self.ranking_phases(batches, data.split("val"), run)
        if self.image_cnn is None:
            return phases
        from models.backbone.image_cnn import pixel_source

        tuning = self.config.fine_tuning
        workers = tuning.workers
        crops = {"resize": tuning.resize, "crop": tuning.crop, "flip": tuning.flip}
        shown = pixel_source(data.files, self.image_architecture, **crops, workers=workers)
        whole = pixel_source(data.files, self.image_architecture, workers=workers)
        train = data.read_split("train", shown)
        last = Phase(
            name=FINE_TUNING,
            epochs=tuning.epochs,
            batches=self.neighbour_batches(train, tuning.batch_size, run, ahead=True),
            val=data.read_split("val", whole),
            ranking=self.criterion["ranking"],
            lr=tuning.lr,
        )
        return [*phases, last]

    def neighbour_batches(
        self, split: Split, size: int, run: Run, ahead: bool = False
    ) -> "NeighbourBatches":
        """The sampler of a phase, with as many neighbours as the terms of the loss need.

        Args:
            split: What batches are drawn from.
            size: Seed pairs per batch.
            run: Has the seed.
            ahead: Whether batches are made in a thread.

        Returns:
            Batches of the split, the same for the same seed.
        """
        return NeighbourBatches(
            split,
            size,
            run.seed,
            extra_captions=self.config.extra_captions,
            extra_images=self.config.extra_images,
            ahead=ahead,
        )

    def enter(self, phase: Phase) -> None:
        """Train the image network in the phase from pixels alone."""
        if self.image_cnn is not None:
            self.image_cnn.requires_grad_(phase.name == FINE_TUNING)

    def pairs(self, images: Rows, captions: Rows, batch: Batch, rows: Tensor) -> Pairs | None:
        """None: the loss compares images with images, too, and makes its own products.

        Args:
            images: I embedded images.
            captions: m embedded captions.
            batch: The whole batch.
            rows: (m,) which of its captions these are.

        Returns:
            None, in the place of scores.
        """
        return None

    def loss(
        self, images: Rows, captions: Rows, pairs: Pairs | None, batch: Batch, phase: Phase
    ) -> Loss:
        """The structure loss of a whole batch.

        Args:
            images: I embedded images.
            captions: C embedded captions.
            pairs: None.
            batch: Says what belongs together.
            phase: Has the loss.

        Returns:
            The loss, a single term.
        """
        assert phase.ranking is not None
        value = phase.ranking(
            self.index(images),
            self.index(captions),
            batch.image_groups,
            batch.caption_groups,
            batch.related,
        )
        return Loss({"": value})


def branch(inputs: int, hidden: int, dim: int, batch_norm: int, dropout: float) -> nn.Sequential:
    """The layers of one side, from (B, inputs) to (B, dim), before the division by the length.

    The layer before the ReLU has He's weights, which make up for the half that the ReLU cuts off,
    the last one Glorot's; the paper names none. Biases are torch's small random ones: the vector of
    a sentence without known words is zero, and without a bias it had no direction.

    Args:
        inputs: Width of the features.
        hidden: Width between the two layers; 0: the linear variant of section 3.2, one layer.
        dim: K of the joint space.
        batch_norm: 1 for one after the last of two layers, 0 for none.
        dropout: Probability of setting a hidden activation to zero, in [0, 1).

    Returns:
        The layers, with their first weights.
    """
    before: list[nn.Module] = []
    if hidden:
        first = nn.Linear(inputs, hidden)
        nn.init.kaiming_uniform_(first.weight, nonlinearity="relu")
        before = [first, nn.ReLU(), nn.Dropout(dropout)]
    norm = [nn.BatchNorm1d(dim)] if hidden and batch_norm else []
    # batch norm subtracts the mean, and with it any bias of the layer before
    last = nn.Linear(hidden or inputs, dim, bias=not norm)
    nn.init.xavier_uniform_(last.weight)
    return nn.Sequential(*before, last, *norm)


# ---- the loss


class StructureLoss(nn.Module):
    """Eq. 5 of Wang et al. 2016: hinges [margin + d(anchor, positive) - d(anchor, negative)]+.

    d is the Euclidean distance of unit vectors. Two terms rank across the views, two keep
    neighbours of one kind together. A term of weight 0 is not computed.

    Args:
        ranking: The loss of the terms across the views, of scores -d; the paper's is knn_margin
            with k = 50.
        margin: m of the terms within a view, in units of d.
        structure_k: Hardest negatives that these count.
        image_to_sentence: Weight of its term (1 in the paper).
        sentence_to_image: Weight of its term (lambda 1).
        image_image: Weight of its term (lambda 2).
        sentence_sentence: Weight of its term (lambda 3).
        reduction: sum over all triplets, as in eq. 5, or mean: each term divided by its number of
            positive pairs.
    """

    def __init__(
        self,
        ranking: RankingLoss,
        margin: float,
        structure_k: int = 50,
        image_to_sentence: float = 1.0,
        sentence_to_image: float = 2.0,
        image_image: float = 0.0,
        sentence_sentence: float = 0.2,
        reduction: str = "sum",
    ) -> None:
        super().__init__()
        self.ranking = ranking
        self.neighbours = KNNMargin(margin, structure_k)
        self.image_to_sentence = image_to_sentence
        self.sentence_to_image = sentence_to_image
        self.image_image = image_image
        self.sentence_sentence = sentence_sentence
        self.reduction = reduction

    def forward(
        self,
        images: Tensor,
        captions: Tensor,
        image_groups: Tensor,
        caption_groups: Tensor,
        related: Tensor | None = None,
    ) -> Tensor:
        """The loss of one batch; a term without positive pairs, or without negatives, adds 0.

        Args:
            images: (I, K) unit rows.
            captions: (C, K) unit rows.
            image_groups: (I,) integers, equal where two images, or image and caption, belong
                together.
            caption_groups: (C,) likewise.
            related: (I, C) bool, pairs that are neither positive nor negative; None for none.

        Returns:
            A scalar, at least float32.
        """
        pairs = image_groups[:, None] == caption_groups
        return self.compare(
            images,
            captions,
            pairs=pairs,
            same=pairs if related is None else pairs | related,
            same_images=image_groups[:, None] == image_groups,
            same_captions=caption_groups[:, None] == caption_groups,
        )

    def compare(
        self,
        images: Tensor,
        captions: Tensor,
        pairs: Tensor,
        same: Tensor,
        same_images: Tensor,
        same_captions: Tensor,
    ) -> Tensor:
        """The loss of a batch whose items belong together in other ways than by groups.

        Args:
            images: (I, K) unit rows.
            captions: (C, K) unit rows.
            pairs: (I, C) bool, the positive pairs.
            same: (I, C) bool, True where neither is a negative of the other.
            same_images: (I, I) bool, True for neighbours and on the diagonal.
            same_captions: (C, C) bool, likewise.

        Returns:
            A scalar, at least float32.
        """
        # bf16 keeps 3 digits of an inner product: too few beside a margin of 0.1
        with torch.autocast(images.device.type, enabled=False):
            images = at_least_float32(images)
            captions = at_least_float32(captions)
            within = images.new_zeros(())
            if self.image_image:
                within = within + self.image_image * self.neighbour_term(images, same_images)
            if self.sentence_sentence:
                term = self.neighbour_term(captions, same_captions)
                within = within + self.sentence_sentence * term
            across = images.new_zeros(())
            scores = -distances(images @ captions.T)
            if self.image_to_sentence:
                term = self.term(self.ranking, scores, pairs, same)
                across = across + self.image_to_sentence * term
            if self.sentence_to_image:
                term = self.term(self.ranking, scores.T, pairs.T, same.T)
                across = across + self.sentence_to_image * term
            return across + within

    def neighbour_term(self, rows: Tensor, alike: Tensor) -> Tensor:
        """One of the terms within a view, unweighted.

        Args:
            rows: (A, K) unit rows of one kind.
            alike: (A, A) bool, True for neighbours and on the diagonal.

        Returns:
            A scalar, at least float32.
        """
        others = alike.clone().fill_diagonal_(False)  # an anchor is not its neighbour
        return self.term(self.neighbours, -distances(rows @ rows.T), others, alike)

    def term(self, ranking: RankingLoss, scores: Tensor, pairs: Tensor, same: Tensor) -> Tensor:
        """One term of eq. 5, unweighted and reduced.

        Args:
            ranking: The loss of this term.
            scores: (A, N), anchors in rows.
            pairs: (A, N) bool, the positive pairs.
            same: (A, N) bool, True where a column is no negative of its row.

        Returns:
            A scalar, at least float32.
        """
        total: Tensor = ranking(scores, pairs, ~same)
        return total / pairs.sum().clamp_min(1) if self.reduction == "mean" else total


def structure_loss(
    ranking: RankingLoss, config: VectorBranchesConfig, weights: TermWeightsConfig
) -> StructureLoss:
    """The loss of a section of params.yaml.

    Args:
        ranking: The loss of the terms across the views.
        config: Has margin, structure_k and reduction.
        weights: Of the terms.

    Returns:
        A module of unit rows and their groups.
    """
    return StructureLoss(
        ranking,
        margin=config.margin,
        structure_k=config.structure_k,
        **weights.model_dump(),
        reduction=config.training.reduction,
    )


def distances(cosines: Tensor) -> Tensor:
    """Euclidean distances sqrt(2 - 2 s) of unit vectors from their inner products s, any shape.

    The gradient of a square root at 0 is infinite, and captions of the same words do lie at
    distance 0. Below one rounding error of s nothing is known of the distance: there it is held
    constant, at 3e-4 in float32, and passes no gradient.
    """
    return (2 - 2 * cosines).clamp_min(torch.finfo(cosines.dtype).eps).sqrt()


# ---- the sampler


class NeighbourBatches:
    """Training batches in which images and captions have neighbours of their own kind.

    In every epoch every pair of image and caption is once the seed of a batch. A batch grows from
    its seeds as far as their groups have other images and captions (Wang et al. 2016, end of
    section 2.2, and section 3.3), so that sizes vary. A last batch of one pair is left out; where
    all seeds are of one group, one of another joins them, as there would be no negatives.

    Args:
        split: What batches are drawn from.
        size: Seed pairs per batch.
        seed: Decides all that is drawn, together with the numbers of epoch and step.
        extra_captions: Captions of its group that each image of a seed pair brings, 0 for none.
        extra_images: Images that each group of a seed pair brings, 0 for none.
        ahead: Whether batches are made in a thread ahead of their use, for sources that take their
            time.

    Raises:
        WorkbenchError: Fewer than two pairs, or pairs of one group only.
    """

    def __init__(
        self,
        split: Split,
        size: int,
        seed: int,
        extra_captions: int = 1,
        extra_images: int = 1,
        ahead: bool = False,
    ) -> None:
        self.split = split
        self.size = size
        self.seed = seed
        self.extra_captions = extra_captions
        self.extra_images = extra_images
        self.ahead = ahead
        pairs = len(split.caption_ids)
        if pairs < 2:
            raise WorkbenchError(f"{pairs} training captions: at least 2 are needed to train")
        names, groups = np.unique(split.image_groups, return_inverse=True)
        self.images = Members(groups, len(names))
        self.captions = Members(groups[split.described], len(names))
        if (self.captions.counts > 0).sum() < 2:
            name = names[self.captions.groups[0]]
            raise WorkbenchError(
                f"all {pairs} training captions belong to one group ({name}): captions of at least "
                "2 groups are needed to train"
            )
        self.steps = pairs // size + (pairs % size > 1)

    def epoch(self, epoch: int, first: int = 0) -> Iterator[Batch]:
        """The batches of an epoch.

        Args:
            epoch: Its number, from 0.
            first: Batches to leave out, which an interrupted training has seen.

        Yields:
            Batches, in their order.
        """
        order = np.random.default_rng([self.seed, epoch]).permutation(len(self.captions.groups))

        def make(step: int) -> Batch:
            # numpy takes [a, b] and [a, b, 0] for the same seed
            generator = np.random.default_rng([self.seed, epoch, step + 1])
            return self.batch(order[step * self.size : (step + 1) * self.size], generator)

        steps = range(first, self.steps)
        yield from prefetch(make, steps) if self.ahead else map(make, steps)

    def batch(self, pairs: np.ndarray, generator: np.random.Generator) -> Batch:
        """The batch that grows from some pairs; these come first among its captions.

        Args:
            pairs: (B,) rows of the captions of the seed pairs.
            generator: Draws their neighbours, and crops of pixels.

        Returns:
            I images and C captions, each of them once, of at least two groups.
        """
        images, captions = self.rows(self.with_two_groups(pairs, generator), generator)
        return Batch(
            images=self.split.images(images, generator),
            captions=self.split.captions(captions, generator),
            image_groups=torch.from_numpy(self.images.groups[images]),
            caption_groups=torch.from_numpy(self.captions.groups[captions]),
            related=self.split.related(images, captions),
        )

    def with_two_groups(self, pairs: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """The seed pairs, and one of another group where they are all of one.

        Args:
            pairs: (B,) rows of captions.
            generator: Draws it.

        Returns:
            (B,) or (B + 1,) rows of captions.
        """
        groups = self.captions.groups
        if (groups[pairs] != groups[pairs[0]]).any():
            return pairs
        return np.append(pairs, generator.choice(np.flatnonzero(groups != groups[pairs[0]])))

    def rows(
        self, pairs: np.ndarray, generator: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """What belongs to the batch of some seed pairs.

        Args:
            pairs: (B,) rows of captions.
            generator: Draws the neighbours.

        Returns:
            Rows of the images (I,) and of the captions (C,).
        """
        images = np.unique(self.split.described[pairs])
        groups, members = np.unique(self.images.groups[images], return_counts=True)
        captions = self.captions.draw(groups, self.extra_captions * members, pairs, generator)
        wanted = np.full_like(groups, self.extra_images)
        neighbours = self.images.draw(groups, wanted, images, generator)
        return np.append(images, neighbours), np.append(pairs, captions)


class Members:
    """Which rows belong to which group, and random draws from them.

    Args:
        groups: (N,) group of each row, integers below `count`.
        count: How many groups there are.

    Attributes:
        counts: (count,) rows of each group.
    """

    def __init__(self, groups: np.ndarray, count: int) -> None:
        self.groups = groups
        self.counts = np.bincount(groups, minlength=count)
        self._rows = np.argsort(groups, kind="stable")
        self._starts = np.cumsum(self.counts) - self.counts

    def draw(
        self,
        groups: np.ndarray,
        wanted: np.ndarray,
        taken: np.ndarray,
        generator: np.random.Generator,
    ) -> np.ndarray:
        """Rows drawn without replacement; a group with too few gives all it has.

        Args:
            groups: (G,) different groups.
            wanted: (G,) how many rows of each.
            taken: (T,) rows that must not be drawn.
            generator: Draws.

        Returns:
            Rows, those of a group after each other, in random order.
        """
        counts = self.counts[groups]
        owners = np.repeat(np.arange(len(groups)), counts)  # place in `groups` of each candidate
        within = np.arange(len(owners)) - (np.cumsum(counts) - counts)[owners]
        candidates = self._rows[self._starts[groups][owners] + within]
        is_free = np.isin(candidates, taken, invert=True)
        candidates = candidates[is_free]
        owners = owners[is_free]
        return candidates[draw_of_each(owners, wanted[owners], generator)]


def draw_of_each(
    groups: np.ndarray, most: np.ndarray | int, generator: np.random.Generator
) -> np.ndarray:
    """Draw items without replacement, so many of a group at most.

    Args:
        groups: (N,) group of each item, integers.
        most: How many of any group, or (N,) for each item of its group.
        generator: Draws.

    Returns:
        Places of the drawn items, group by group.
    """
    order = np.lexsort((generator.random(len(groups)), groups))
    ordered = groups[order]  # a group's items follow each other, in random order
    rank = np.arange(len(order)) - np.searchsorted(ordered, ordered)
    return order[rank < (most if isinstance(most, int) else most[order])]
