"""VSE-infinity: regions and words, each side pooled by weights that are learnt (Chen et al. 2021).

A region goes through a linear layer, to which the result of a perceptron of two layers is added;
words go through a bidirectional GRU, states of a transformer's tokens through a linear layer. Each
side is then pooled to one vector (models/layers/sets.py). In training some regions and words are
left out, so that sets of all sizes are seen: that is the sampler's matter.

The transformer is frozen at first. Its network may be trained afterwards (`train_words`), from the
best weights so far, which are kept where no epoch of that is better. Then the network is a part of
the model (models/backbone/bert.py), and captions are the ids of tokens.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from pydantic import Field
from pydantic_core import InitErrorDetails
from torch import Tensor, nn

from models.attention.encoders import BiGRUEncoder
from models.backbone.bert import Bert
from models.base import Model, OwnRate, Run
from models.layers.linear import Standardise, glorot_linear, length_mask
from models.layers.sets import POOLS
from pipeline.features.data import (
    CaptionKind,
    CaptionWords,
    ImageRegions,
    Inputs,
    RetrievalData,
    TokenIds,
    TokenStates,
)
from pipeline.features.split import Batch, PairBatches, Regions, Split, Words
from pipeline.runtime.section import (
    Count,
    Natural,
    Positive,
    Section,
    cross_check,
    wrong_value,
)
from pipeline.training.params import TrainingConfig, WordsConfig
from pipeline.training.trainer import Phase

TRAIN_WORDS = "train_words"  # name of the phase, and of its section
Pool = Literal["gpo", "mean", "max"]
Share = Annotated[float, Field(ge=0, lt=1)]


class TrainWordsConfig(Section):
    """Epochs that also train the transformer's network, with a schedule of their own."""

    epochs: Natural = 0  # 0: it stays as it is
    lr: Positive = 0.0001  # of the network; all else has that of `training`
    checkpointing: bool = True  # whether activations are computed twice, to save memory


class VSEInfinityConfig(WordsConfig):
    """The section `vse_infinity` of params.yaml; the paper's values are in parentheses."""

    words: Literal["gru", "transformer"] = "gru"  # what reads a caption (both)
    train_words: TrainWordsConfig = TrainWordsConfig()
    dim: Count = 128  # K of the joint space (1024)
    image_mlp: bool = True  # whether a perceptron is added to the linear layer
    image_pool: Pool = "gpo"
    text_pool: Pool = "gpo"
    drop_regions: Share = 0.2  # probability of leaving a region out in training (0.2)
    drop_words: Share = 0.0  # likewise a word (0.2 of the transformer's tokens)
    training: TrainingConfig = TrainingConfig(epochs=5, batch_size=128, lr=0.001, lr_step=4)

    @cross_check
    def _what_is_trained_is_read(self) -> Iterator[InitErrorDetails]:
        if self.train_words.epochs and self.words != "transformer":
            text = f"vse_infinity.words = {self.words!r} has no network; set words to transformer"
            yield wrong_value("train_words.epochs", self.train_words.epochs, text)


class VSEInfinity(Model):
    """Both sides as pooled sets (Chen et al. 2021, section 3).

    Args:
        config: The section of params.yaml.
        image_dim: D of a region's features.
        vocabulary_size: V; word 0 is padding. Not read with token states.
        state_dim: E of a token's state; 0: it reads word ids.
        network: Sizes of the transformer's network that is a part of the model, "" for none.
    """

    Config = VSEInfinityConfig
    TRAINING_KEYS: ClassVar = Model.TRAINING_KEYS | {"train_words"}
    NEEDS: ClassVar = {
        "features": "data/features/regions.h5",
        "text": "data/vocabulary",
        "states": "data/features/token_states.h5",
    }

    def __init__(
        self,
        config: VSEInfinityConfig,
        image_dim: int,
        vocabulary_size: int,
        state_dim: int = 0,
        network: str = "",
    ) -> None:
        super().__init__(config)
        self.standardise = Standardise(image_dim)
        self.projection = glorot_linear(image_dim, config.dim)
        self.perceptron = perceptron(image_dim, config.dim) if config.image_mlp else None
        self.image_pool = POOLS[config.image_pool]()
        self.text_pool = POOLS[config.text_pool]()
        self.reads_states = state_dim > 0
        self.network = Bert(network, config.train_words.checkpointing) if network else None
        self.text: nn.Module
        if self.reads_states:
            self.text = glorot_linear(state_dim, config.dim)
        else:
            self.text = BiGRUEncoder(vocabulary_size, config.word_dim, config.dim)

    @classmethod
    def open_data(
        cls, config: VSEInfinityConfig, files: Inputs, in_memory: bool = True
    ) -> RetrievalData:
        """Regions, and word ids or the states of tokens.

        Args:
            config: The section of params.yaml; `words` says what reads a caption.
            files: The artefacts of NEEDS.
            in_memory: Whether features are read into memory where they fit.

        Returns:
            What the model reads.
        """
        captions: CaptionKind
        if config.train_words.epochs:
            captions = TokenIds(files.states, files.encoder)
        elif config.words == "transformer":
            captions = TokenStates(files.states, files.encoder)
        else:
            captions = CaptionWords(files.text)
        return RetrievalData(files, ImageRegions(files.features, in_memory), captions)

    def embed_images(self, images: Regions) -> Tensor:  # type: ignore[override]
        """Regions (B, R, D) to vectors (B, K), zeros for an image without any; their positions play
        no part."""
        exists = length_mask(images.counts, images.features.shape[1], images.features.device)
        regions = self.standardise(images.features[exists])  # padding would count in the batch norm
        vectors = self.projection(regions)
        if self.perceptron is not None:
            vectors = vectors + self.perceptron(regions)
        items = vectors.new_zeros(*exists.shape, vectors.shape[1])
        items[exists] = vectors
        pooled: Tensor = self.image_pool(items, images.counts)
        return pooled

    def embed_captions(self, captions: Words) -> Tensor:  # type: ignore[override]
        """Words (B, T), states of tokens (B, T, E) or their ids (B, T), to vectors (B, K)."""
        if self.network is not None:
            items = self.text(self.network(captions.ids, captions.lengths))
        elif self.reads_states:
            items = self.text(captions.ids.float())
        else:
            items = self.text(captions.ids, captions.lengths)
        pooled: Tensor = self.text_pool(items, captions.lengths)
        return pooled

    def phases(self, data: RetrievalData, run: Run) -> list[Phase]:
        """The epochs of all models of pairs, on batches of which regions and words are left out.

        Args:
            data: What they are trained and validated on.
            run: Names the ranking loss.

        Returns:
            The phases of all models of pairs, and that of the transformer's network, if any.
        """
        batches = ThinnedBatches(
            data.split("train"),
            self.config.training.batch_size,
            run.seed,
            drop_regions=self.config.drop_regions,
            drop_words=self.config.drop_words,
        )
        phases = [replace(phase, batches=batches) for phase in super().phases(data, run)]
        if self.network is None:
            return phases
        tuning = replace(
            phases[-1],
            name=TRAIN_WORDS,
            epochs=self.config.train_words.epochs,
            lr=self.config.training.lr,
            from_best=True,
            keeps_start=True,
        )
        return [*phases, tuning]

    def start(self, data: RetrievalData, run: Run) -> None:
        """Take first weights, for the transformer's network those that were published.

        Args:
            data: Has the network, if it is trained.
            run: Names the ranking loss.
        """
        super().start(data, run)
        if self.network is not None:
            assert isinstance(data.captions, TokenIds)
            self.network.take(data.captions.network)

    def enter(self, phase: Phase) -> None:
        """The transformer's network is trained in its own phase alone."""
        if self.network is not None:
            self.network.requires_grad_(phase.name == TRAIN_WORDS)

    def own_rate(self) -> OwnRate | None:
        """That of the transformer's network, if there is one."""
        if self.network is None:
            return None
        share = self.config.train_words.lr / self.config.training.lr
        return OwnRate(list(self.network.parameters()), share, f"{TRAIN_WORDS}.lr")

    def unread(self) -> Any:
        """What is said of a network that is not trained."""
        return None if self.config.train_words.epochs else {"train_words"}


def perceptron(inputs: int, outputs: int) -> nn.Sequential:
    """Two layers, half as wide within, with batch norm and ReLU, as in the authors' code.

    Args:
        inputs: Width of what comes in.
        outputs: Width of what goes out.

    Returns:
        The layers.
    """
    hidden = max(outputs // 2, 1)
    # batch norm subtracts the mean, and with it any bias of the layer before
    first = nn.Linear(inputs, hidden, bias=False)
    return nn.Sequential(first, nn.BatchNorm1d(hidden), nn.ReLU(), nn.Linear(hidden, outputs))


class ThinnedBatches(PairBatches):
    """Pairs, some of whose regions and words are left out; which, follows from seed, epoch and
    step.

    Args:
        split: What batches are drawn from.
        size: Pairs per batch, at least 2.
        seed: Decides order and what is left out.
        drop_regions: Probability in [0, 1) of leaving a region out; one of an image stays.
        drop_words: Likewise of a word.
    """

    def __init__(
        self, split: Split, size: int, seed: int, drop_regions: float, drop_words: float
    ) -> None:
        super().__init__(split, size, seed)
        self.drop_regions = drop_regions
        self.drop_words = drop_words

    def epoch(self, epoch: int, first: int = 0) -> Iterator[Batch]:
        """The batches of an epoch.

        Args:
            epoch: Its number, from 0.
            first: Batches to leave out, which an interrupted training has seen.

        Yields:
            Batches, padded to the largest set that is left.
        """
        for step, batch in enumerate(super().epoch(epoch, first), first):
            # 1 + step: numpy takes [seed, epoch, 0] for [seed, epoch], which has made the order
            generator = np.random.default_rng([self.seed, epoch, 1 + step])
            regions = batch.images
            words = batch.captions
            assert isinstance(regions, Regions)
            assert isinstance(words, Words)
            features, counts = drop_items(
                regions.features, regions.counts, self.drop_regions, generator
            )
            ids, lengths = drop_items(words.ids, words.lengths, self.drop_words, generator)
            # the model reads no positions, so that theirs need not follow
            yield replace(
                batch,
                images=Regions(features, regions.positions[:, : features.shape[1]], counts),
                captions=Words(ids, lengths),
            )


def drop_items(
    items: Tensor, counts: Tensor, share: float, generator: np.random.Generator
) -> tuple[Tensor, Tensor]:
    """Sets without some of their items, in the same order and padded at the end (size augmentation,
    Chen et al. 2021, section 4.1).

    Args:
        items: (B, R, ...).
        counts: (B,) items of each set, at the front.
        share: Probability of leaving an item out, in [0, 1). Of a set that would lose all, the one
            with the largest draw stays.
        generator: Draws.

    Returns:
        The sets, as wide as the largest of them, and what is left of each (B,).
    """
    if not share:
        return items, counts
    exists = length_mask(counts, items.shape[1], torch.device("cpu"))
    draws = torch.from_numpy(generator.random(tuple(exists.shape))).where(exists, -1.0)
    kept = exists & ((draws >= share) | (draws == draws.amax(1, keepdim=True)))
    left = kept.sum(1)
    order = (~kept).int().argsort(dim=1, stable=True)[:, : max(int(left.max()), 1)]
    return items[torch.arange(len(items))[:, None], order], left
