"""The two-branch network on boxes and phrases (Wang et al. 2016, section 3.3): trained on pairs,
then on hard negatives.

Hard negatives are proposed boxes that lie nearer to a phrase than its own. They are found once,
with the best weights of the first phase (`find_hard_negatives`). Phrases and boxes belong together
many to many, so a batch has masks in the place of groups (`PhraseBatch`).
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, ClassVar

import numpy as np
import torch
from pydantic import Field
from scipy.sparse import csr_matrix
from torch import Tensor, nn

from models.base import Model, Run, evaluating
from models.phrases.data import (
    DRAWN,
    PhraseData,
    PhrasePairs,
    PhraseSearch,
    embed_proposals,
    embed_rows,
    validate_phrases,
)
from models.ranking import make_loss
from models.two_branch import (
    Members,
    StructureLoss,
    TermWeightsConfig,
    TwoBranch,
    VectorBranchesConfig,
    draw_of_each,
    structure_loss,
)
from pipeline.features.feature_file import FeatureFile
from pipeline.features.hdf5 import mapped
from pipeline.phrases.boxes import overlaps, rows_of_images
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.process import say
from pipeline.runtime.section import Count, Natural, Positive, Section, Share
from pipeline.training.params import TrainingConfig
from pipeline.training.process_group import ProcessGroup
from pipeline.training.trainer import Loss, Phase, Validation

MINING = "mining"  # name of the phase


class MiningConfig(Section):
    """Fine-tuning with proposals that lie nearer to a phrase than its own boxes."""

    epochs: Natural = 3  # (5); 0: none
    batch_size: Annotated[int, Field(ge=2)] = 64
    negatives: Count = 50  # of a phrase at most, drawn at random (50)
    sampled: Count = 10  # of these that a phrase brings into a batch, drawn anew each time
    overlap: Share = 1.0  # IoU with a box of the phrase from which on a proposal is no negative
    lr: Positive = 0.0003


class PhraseTwoBranchConfig(VectorBranchesConfig):
    """The section `phrase_two_branch` of params.yaml."""

    weights: TermWeightsConfig = TermWeightsConfig(image_image=0.1, sentence_sentence=0.1)
    training: TrainingConfig = TrainingConfig(
        epochs=4, batch_size=256, lr=0.001, lr_step=6, clip=0.0
    )
    mining: MiningConfig = MiningConfig()


# ---- the model


class PhraseTwoBranch(TwoBranch):
    """The two-branch network, of boxes (its images) and phrases (its captions)."""

    Config: ClassVar[type[VectorBranchesConfig]] = PhraseTwoBranchConfig

    def used(self, name: str, run: Run) -> dict[str, Any]:
        """What decides the weights.

        Args:
            name: Of the model.
            run: What all models of the run share.

        Returns:
            The values, which JSON can hold.
        """
        used = run.used(name, self.config)
        used[name] |= DRAWN
        return used

    def start(self, data: PhraseData, run: Run) -> None:  # type: ignore[override]
        """Take the moments of both sides, and make the losses of both phases.

        Args:
            data: Whose training split gives the moments.
            run: Names the ranking loss.
        """
        if self.config.standardise_images:
            self.image_standardise.fit(*data.train.regions.moments())
        if self.config.standardise_sentences:
            self.sentence_standardise.fit(*data.train.phrases.moments())
        self.criterion = nn.ModuleDict({"ranking": self.ranking_loss(run, run.loss)})
        if self.config.mining.epochs:
            # without the terms within each view: those across the views outnumber them by far
            across = {"image_image": 0.0, "sentence_sentence": 0.0}
            weights = self.config.weights.model_copy(update=across)
            ranking = make_loss(run.loss, margin=self.config.margin, **run.ranking)
            self.criterion[MINING] = structure_loss(ranking, self.config, weights)

    def phases(self, data: PhraseData, run: Run) -> list[Phase]:  # type: ignore[override]
        """The epochs of pairs, then those of hard negatives, which begin with the best weights; of
        these the best is kept even where it is worse.

        Args:
            data: What they are trained and validated on.
            run: Names the ranking loss.

        Returns:
            One to three phases, each of at least one epoch.
        """
        config = self.config
        val = data.search("val")
        batches = PhraseBatches(
            data.train,
            config.training.batch_size,
            run.seed,
            extra_phrases=config.extra_captions,
            extra_regions=config.extra_images,
        )
        phases = self.ranking_phases(batches, val, run)
        if not config.mining.epochs:
            return phases
        hard = MinedBatches(
            data.train,
            config.mining.batch_size,
            run.seed + 1,
            proposals=data.proposals,
            sampled=config.mining.sampled,
        )

        def begin() -> None:
            found = ProcessGroup().on_rank_zero(
                lambda: find_hard_negatives(self, data, config.mining)
            )
            say(
                f"phrase_two_branch: {len(found):,} hard negatives of "
                f"{len(set(found[:, 2])):,} phrases, of {data.train.related.shape[1]:,}"
            )
            hard.take(found)

        last = Phase(
            name=MINING,
            epochs=config.mining.epochs,
            batches=hard,
            val=val,
            ranking=self.criterion[MINING],
            lr=config.mining.lr,
            from_best=True,
            begin=begin,
        )
        return [*phases, last]

    def batch_loss(  # type: ignore[override]
        self, batch: "PhraseBatch", phase: Phase, processes: ProcessGroup
    ) -> Loss:
        """The structure loss of a batch, of which each process embeds its share of the rows.

        Args:
            batch: On the model's device.
            phase: Has the loss.
            processes: Who shares the rows.

        Returns:
            The loss of the whole batch, the same in every process.
        """
        regions = processes.shard(self.embed_images, batch.regions)
        phrases = processes.shard(self.embed_captions, batch.phrases)
        assert isinstance(phase.ranking, StructureLoss)
        value = phase.ranking.compare(
            self.index(regions),
            self.index(phrases),
            pairs=batch.pairs,
            same=batch.same,
            same_images=batch.same_regions,
            same_captions=batch.same_phrases,
        )
        return Loss({"": value})

    def validate(self, val: PhraseSearch) -> Validation:  # type: ignore[override]
        """How many phrases are found."""
        return validate_phrases(self, val)


# ---- batches


@dataclass(frozen=True)
class PhraseBatch:
    """R boxes and C phrases, each of them once.

    Args:
        regions: (R, D) vectors, those of hard negatives last.
        phrases: (C, E) vectors.
        pairs: (R, C) bool, which belong together.
        same: (R, C) bool, True where neither is a negative of the other.
        same_regions: (R, R) bool, True where a phrase stands for both, and on the diagonal.
        same_phrases: (C, C) bool, True where both stand for a box.
    """

    regions: Tensor
    phrases: Tensor
    pairs: Tensor
    same: Tensor
    same_regions: Tensor
    same_phrases: Tensor

    def __len__(self) -> int:
        return len(self.phrases)

    def to(self, device: torch.device) -> "PhraseBatch":
        """The batch on a device."""
        parts = {field.name: getattr(self, field.name) for field in fields(self)}
        return PhraseBatch(**{name: part.to(device) for name, part in parts.items()})


class PhraseBatches:
    """Training batches: in every epoch every pair of box and phrase is the seed of one batch.

    Random pairs seldom hold two phrases of one box or two boxes of one phrase, so that boxes bring
    phrases and phrases boxes (Wang et al. 2016, section 3.3). A last batch of one pair is left out.

    Args:
        data: The training split.
        size: Seed pairs per batch.
        seed: Decides all that is drawn, together with the numbers of epoch and step.
        extra_phrases: Phrases that each box of a seed pair brings.
        extra_regions: Boxes that each phrase of a seed pair brings.

    Raises:
        WorkbenchError: Fewer than two pairs, or than two phrases.
    """

    def __init__(
        self,
        data: PhrasePairs,
        size: int,
        seed: int,
        extra_phrases: int = 0,
        extra_regions: int = 0,
    ) -> None:
        self.data = data
        self.size = size
        self.seed = seed
        self.extra_phrases = extra_phrases
        self.extra_regions = extra_regions
        count = len(data.pairs)
        regions, phrases = data.related.shape
        if count < 2 or phrases < 2:
            raise WorkbenchError(
                f"{count} training pairs of {phrases} phrases: at least 2 of each are needed",
                "see phrases.source in params.yaml",
            )
        self.by_region = Members(data.pairs[:, 0], regions)
        self.by_phrase = Members(data.pairs[:, 1], phrases)
        self.steps = count // size + (count % size > 1)

    def epoch(self, epoch: int, first: int = 0) -> Iterator[PhraseBatch]:
        """The batches of an epoch.

        Args:
            epoch: Its number, from 0.
            first: Batches to leave out, which an interrupted training has seen.

        Yields:
            Batches, in their order.
        """
        order = np.random.default_rng([self.seed, epoch]).permutation(len(self.data.pairs))
        for step in range(first, self.steps):
            # numpy takes [a, b] and [a, b, 0] for the same seed
            generator = np.random.default_rng([self.seed, epoch, step + 1])
            yield self.batch(order[step * self.size : (step + 1) * self.size], generator)

    def batch(self, seeds: np.ndarray, generator: np.random.Generator) -> PhraseBatch:
        """The batch that grows from some pairs.

        Args:
            seeds: (B,) rows of `data.pairs`.
            generator: Draws what joins them.

        Returns:
            The batch.
        """
        return self.build(*self.rows(seeds, generator))

    def build(self, regions: np.ndarray, phrases: np.ndarray) -> PhraseBatch:
        """The batch of some boxes and phrases.

        Args:
            regions: (R,) rows of boxes.
            phrases: (C,) rows of phrases.

        Returns:
            The batch.
        """
        # products of int8 could overflow
        related = self.data.related[regions].astype(np.int32)
        columns = self.data.related[:, phrases].astype(np.int32)
        pairs = is_positive(related[:, phrases])
        return PhraseBatch(
            regions=self.data.regions(regions),
            phrases=self.data.phrases(phrases),
            pairs=pairs,
            same=pairs,
            same_regions=is_positive(related @ related.T),
            same_phrases=is_positive(columns.T @ columns),
        )

    def rows(
        self, seeds: np.ndarray, generator: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """What belongs to the batch of some seed pairs.

        Args:
            seeds: (B,) rows of `data.pairs`.
            generator: Draws what joins them.

        Returns:
            Rows of the boxes (R,) and of the phrases (C,), sorted.
        """
        pairs = self.data.pairs
        regions = np.unique(pairs[seeds, 0])
        phrases = np.unique(pairs[seeds, 1])
        wanted = np.full_like(regions, self.extra_phrases)
        more = self.by_region.draw(regions, wanted, seeds, generator)
        wanted = np.full_like(phrases, self.extra_regions)
        other = self.by_phrase.draw(phrases, wanted, seeds, generator)
        return np.union1d(regions, pairs[other, 0]), np.union1d(phrases, pairs[more, 1])


class MinedBatches(PhraseBatches):
    """Batches whose phrases bring hard negatives; `take` says which there are.

    Args:
        data: The training split.
        size: Seed pairs per batch.
        seed: Decides all that is drawn.
        proposals: The file that hard negatives are boxes of.
        sampled: Hard negatives that each phrase of a batch brings.
    """

    def __init__(
        self, data: PhrasePairs, size: int, seed: int, proposals: FeatureFile, sampled: int
    ) -> None:
        super().__init__(data, size, seed)
        self.proposals = proposals
        self.sampled = sampled

    def take(self, found: np.ndarray) -> None:
        """Take what `find_hard_negatives` has found."""
        self.found = found
        self.by_owner = Members(found[:, 2], self.data.related.shape[1])
        self.values = mapped(self.proposals.path, self.proposals.layouts["features"])

    def vectors(self, rows: np.ndarray) -> Tensor:
        """Vectors (B, D) of some hard negatives, rows (B,)."""
        images, places, _ = self.found[rows].T
        return torch.from_numpy(np.asarray(self.values[images, places])).float()

    def batch(self, seeds: np.ndarray, generator: np.random.Generator) -> PhraseBatch:
        """The batch that grows from some pairs, with hard negatives of its phrases.

        Args:
            seeds: (B,) rows of `data.pairs`.
            generator: Draws what joins them.

        Returns:
            The batch; what is a negative of one phrase may fit another, so that it is one of its
            own phrase alone.
        """
        regions, phrases = self.rows(seeds, generator)
        plain = self.build(regions, phrases)
        nothing = np.zeros(0, np.int64)
        wanted = np.full_like(phrases, self.sampled)
        hard = self.by_owner.draw(phrases, wanted, nothing, generator)
        is_own = torch.from_numpy(self.found[hard, 2][:, None] == phrases)
        alone = torch.eye(len(hard), dtype=torch.bool)
        return replace(
            plain,
            regions=torch.cat([plain.regions, self.vectors(hard)]),
            pairs=torch.cat([plain.pairs, torch.zeros_like(is_own)]),
            same=torch.cat([plain.same, ~is_own]),
            same_regions=torch.block_diag(plain.same_regions, alone),
        )


def is_positive(rows: csr_matrix) -> Tensor:
    """Where a sparse matrix is above 0, as a bool tensor."""
    return torch.from_numpy(rows.toarray() > 0)


# ---- hard negatives


def find_hard_negatives(model: Model, data: PhraseData, settings: MiningConfig) -> np.ndarray:
    """Proposals that lie nearer to a phrase than its own boxes (Wang et al. 2016, section 3.3).

    The images of a phrase's training pairs are searched. A proposal that overlaps enough with one
    of the phrase's boxes is what the model should find, and no negative.

    Args:
        model: On its device; left in the mode it was in.
        data: Of the run.
        settings: What overlaps enough, and how many are drawn.

    Returns:
        (H, 3) rows of the images in the file of proposals, numbers of the boxes in their image, and
        rows of the phrases.

    Raises:
        WorkbenchError: There are none.
    """
    train = data.train
    names, owners = np.unique(train.region_images, return_inverse=True)
    wanted = phrases_by_image(train, owners, len(names))
    places = data.proposals.rows(names.tolist())
    boxes = data.proposals.read(places, "boxes")
    counts = data.proposals.read(places, "counts")
    regions_of = rows_of_images(owners, len(names))
    found = []
    with evaluating(model):
        phrases = embed_rows(
            model, model.embed_captions, train.phrases, count=train.related.shape[1]
        )
        regions = embed_rows(model, model.embed_images, train.regions, count=len(train.boxes))
        proposed = embed_proposals(model, data.proposals, names.tolist())
        for image, vectors in enumerate(proposed):
            codes = wanted[image]
            here = regions_of[image]
            if not len(codes):
                continue
            related = train.related[here][:, codes].toarray() > 0  # (G, U) boxes of this image
            truth = (regions[here] @ phrases[codes].T).cpu().numpy()
            nearest = np.where(related, truth, -np.inf).max(0)
            scores = (vectors @ phrases[codes].T).cpu().numpy()
            ious = overlaps(boxes[image, : counts[image]], train.boxes[here])
            is_right = (ious >= settings.overlap).astype(np.int32) @ related > 0
            slots, columns = np.nonzero((scores > nearest) & ~is_right)
            row = np.full_like(slots, places[image])
            found.append(np.stack([row, slots, codes[columns]], 1))
    return draw_negatives(np.concatenate(found), settings.negatives, data.seed)


def phrases_by_image(data: PhrasePairs, owners: np.ndarray, count: int) -> list[np.ndarray]:
    """The unique phrases of each image's training pairs.

    Args:
        data: The training split.
        owners: (R,) number of the image of each box.
        count: How many images there are.

    Returns:
        Rows of phrases for each image.
    """
    both = np.unique(np.stack([owners[data.pairs[:, 0]], data.pairs[:, 1]], 1), axis=0)
    return np.split(both[:, 1], np.searchsorted(both[:, 0], np.arange(1, count)))


def draw_negatives(found: np.ndarray, most: int, seed: int) -> np.ndarray:
    """At most so many hard negatives of a phrase.

    Args:
        found: (H, 3) image, box and phrase.
        most: Of a phrase.
        seed: Of the run.

    Returns:
        The drawn rows of `found`.

    Raises:
        WorkbenchError: There are none.
    """
    if not len(found):
        raise WorkbenchError(
            "no proposal lies nearer to a phrase than its own boxes: nothing to learn from",
            "set phrase_two_branch.mining.epochs to 0",
        )
    generator = np.random.default_rng([seed, 2])
    drawn: np.ndarray = found[draw_of_each(found[:, 2], most, generator)]
    return drawn
