"""DP-RNN: captions and images are both read by recurrent networks, and matched word by object (Chen
and Luo 2020).

Two networks (tower.py), one word-oriented and one object-oriented, are trained one after the other,
each as if alone; their scores are averaged. Reading an image in the order of a caption's words
(recurrent.py) makes objects for the pair alone, which is too slow for all pairs: an early score
selects the images of each caption that are scored so, in training (`pairs`) and in evaluation
(`score_split`). The similarity itself is in matching.py. Equations are those of the paper.
"""

from collections.abc import Iterator
from copy import copy, deepcopy
from dataclasses import replace
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from pydantic_core import InitErrorDetails
from torch import Tensor, nn
from torch.nn.functional import normalize

from models.base import (
    WARM_UP,
    AttentionView,
    Model,
    Pairs,
    Run,
    embed_all_images,
    evaluating,
    in_blocks,
    part_of,
    scores_of,
)
from models.dp_rnn.tower import OrientedTower, Side
from models.ranking import warms_up
from pipeline.evaluation.score_file import SplitScores
from pipeline.features.data import CaptionWords, ImageRegions, Inputs, RetrievalData
from pipeline.features.regions.boxes import require_boxes
from pipeline.features.split import Batch, PairBatches, Regions, Split, Words, to_device
from pipeline.runtime.section import (
    Count,
    Natural,
    NonNegative,
    Positive,
    Section,
    cross_check,
    wrong_value,
    wrong_whole,
)
from pipeline.training.curve import validate_retrieval
from pipeline.training.params import Batch as BatchSize
from pipeline.training.params import CommonTraining, WordsConfig
from pipeline.training.schedule import Row
from pipeline.training.trainer import Phase, Validation

ORIENTATIONS = {"both": ("word", "object"), "word": ("word",), "object": ("object",)}
CAPTION_BLOCK = 128  # captions scored at once in evaluation
IMAGE_BLOCK = 64  # images scored at once without recurrence, in evaluation
PAIR_BLOCK = 2048  # pairs scored at once with recurrence, in evaluation
LEAST_MOVE = 2.0  # similarities lie in [-1, 1], but those by LogSumExp may lie beyond

Sides = tuple[Side, ...]  # images or captions as each network compares them


# ---- the section of params.yaml


class DPRNNEpochsConfig(Section):
    """Epochs of each phase; those of a warm-up belong to `matching`."""

    matching: Natural = 2  # trains all but the recurrent visual embedding, which is not used
    recurrent: Natural = 1  # trains the recurrent visual embedding alone
    all: Natural = 1


class DPRNNTrainingConfig(CommonTraining):
    """The training of each network."""

    epochs: DPRNNEpochsConfig
    batch_size: BatchSize
    lr: Positive
    lr_step: Count


class DPRNNConfig(WordsConfig):
    """The section `dp_rnn` of params.yaml; the paper's values are in parentheses."""

    dim: Count = 64  # K of the joint space (1024)
    orientation: Literal["both", "word", "object"] = "both"
    matching: Literal["multi_attention", "scan"] = "multi_attention"  # scan: no learnt weights
    vectors: Literal["raw", "unit"] = "raw"  # whether lengths count outside of the cosines
    pooling: Literal["mean", "lse", "mean_lse"] = "mean"  # of scan's cosines
    lse: Positive = 6.0  # of LogSumExp (words 6, objects 5 or 20)
    recurrent: bool = True  # whether there is a recurrent visual embedding
    order: Literal["attended", "random"] = "attended"  # of the objects (table 1)
    temperature_objects: Positive = 9.0  # lambda_1 of eq. 5 (9)
    temperature_words: Positive = 4.0  # lambda_2 of eq. 8 (4)
    beta_words: NonNegative = 5.0  # eq. 10 (0.3)
    beta_objects: NonNegative = 5.0  # eq. 11 (0.3)
    candidates: Count = 5  # d, wrong images per caption that train with recurrence (10)
    validation_shortlist: Count = 30  # images per caption that are validated with recurrence
    position_gate: bool = True
    training: DPRNNTrainingConfig = DPRNNTrainingConfig(
        epochs=DPRNNEpochsConfig(), batch_size=64, lr=0.001, lr_step=5
    )

    @cross_check
    def _what_is_used_is_trained(self) -> Iterator[InitErrorDetails]:
        epochs = self.training.epochs
        if self.recurrent and epochs.recurrent == epochs.all == 0:
            yield wrong_whole(
                "training.epochs",
                "recurrent and all are 0, but dp_rnn.recurrent = True; give one of them epochs or "
                "set dp_rnn.recurrent to false",
            )
        if not self.recurrent and epochs.matching == epochs.all == 0:
            yield wrong_whole(
                "training.epochs", "matching and all are 0; one of them must have epochs"
            )

    @cross_check
    def _weights_are_those_of_a_mean(self) -> Iterator[InitErrorDetails]:
        if self.pooling != "mean" and self.matching == "multi_attention":
            yield wrong_value(
                "pooling",
                self.pooling,
                "dp_rnn.matching = 'multi_attention' adds up by its weights (eq. 12); "
                "set pooling to mean or matching to scan",
            )

    def pools_by_lse(self, orientation: str) -> bool:
        """Whether a network pools SCAN's cosines by LogSumExp. `mean_lse` is SCAN's t-i AVG and i-t
        LSE, whose average is the reference of table 1."""
        return self.pooling == "lse" or (self.pooling == "mean_lse" and orientation == "object")


def make_tower(
    config: DPRNNConfig, orientation: str, image_dim: int, vocabulary_size: int
) -> OrientedTower:
    """One of the two networks.

    Args:
        config: The section of params.yaml.
        orientation: word or object.
        image_dim: D of a region's features.
        vocabulary_size: V; word 0 is padding.

    Returns:
        The network, with random weights.
    """
    is_word = orientation == "word"
    has_weights = config.matching == "multi_attention"
    return OrientedTower(
        image_dim=image_dim,
        vocabulary_size=vocabulary_size,
        word_dim=config.word_dim,
        dim=config.dim,
        orientation=orientation,
        temperature=config.temperature_words if is_word else config.temperature_objects,
        beta_words=config.beta_words if has_weights else 0.0,
        beta_objects=config.beta_objects if has_weights else 0.0,
        raw=config.vectors == "raw",
        lse=config.lse if config.pools_by_lse(orientation) else None,
        position_gate=config.position_gate,
        recurrent=config.recurrent,
        random=config.order == "random",
    )


class DPRNN(Model):
    """The networks of an orientation.

    Args:
        config: The section of params.yaml.
        image_dim: D of a region's features.
        vocabulary_size: V; word 0 is padding.
    """

    Config = DPRNNConfig
    NEEDS: ClassVar = {"features": "data/features/regions.h5", "text": "data/vocabulary"}
    VECTORS = False
    SHORTLISTS = True
    TRAINING_KEYS = Model.TRAINING_KEYS | {"validation_shortlist"}

    def __init__(self, config: DPRNNConfig, image_dim: int, vocabulary_size: int) -> None:
        super().__init__(config)
        state = torch.get_rng_state()
        self.towers = nn.ModuleDict()
        for name in ORIENTATIONS[config.orientation]:
            torch.set_rng_state(state)  # each from the weights that it would have alone
            self.towers[name] = make_tower(config, name, image_dim, vocabulary_size)
        self.recurrence: Tensor  # a buffer: weights are scored the way they were trained
        self.register_buffer("recurrence", torch.zeros((), dtype=torch.uint8))

    @classmethod
    def open_data(cls, config: DPRNNConfig, files: Inputs, in_memory: bool = True) -> RetrievalData:
        """Regions and word ids.

        Args:
            config: The section of params.yaml; a position gate needs boxes.
            files: The artefacts of NEEDS.
            in_memory: Whether features are read into memory where they fit.

        Returns:
            The opened data.

        Raises:
            WorkbenchError: The regions have no boxes, and config.position_gate needs them.
        """
        images = ImageRegions(files.features, in_memory)
        if config.position_gate:
            require_boxes(images.file, "dp_rnn.position_gate")
        return RetrievalData(files, images, CaptionWords(files.text))

    @property
    def networks(self) -> list[OrientedTower]:
        """The networks: word before object."""
        return [tower for tower in self.towers.values() if isinstance(tower, OrientedTower)]

    @property
    def uses_recurrence(self) -> bool:
        """Whether scores are those with the recurrent visual embedding; saved with the weights."""
        return bool(self.recurrence)

    def uses_shortlist(self) -> bool:
        """Whether these weights score some images of a caption with recurrence."""
        return self.uses_recurrence

    # ---- embedding

    def embed_images(self, images: Regions) -> Sides:  # type: ignore[override]
        """Regions as each network compares them."""
        return tuple(tower.embed_images(images) for tower in self.networks)

    def embed_captions(self, captions: Words) -> Sides:  # type: ignore[override]
        """Words as each network compares them."""
        return tuple(tower.embed_captions(captions) for tower in self.networks)

    def sums(self, sides: Sides) -> Tensor:
        """(B, networks x K), whose products are the early scores of the networks, added up."""
        return torch.cat([side.sums for side in sides], dim=1)

    def index(self, side: Sides) -> Tensor:
        """The directions of the sums, for a shortlist in search."""
        return normalize(self.sums(side).float(), dim=1)

    # ---- scores in evaluation: means of the networks

    def score(self, images: Sides, captions: Sides) -> Tensor:
        """Similarities of all pairs, with recurrence where the weights were trained with it.

        Args:
            images: N images.
            captions: M captions.

        Returns:
            (N, M).
        """
        if not self.uses_recurrence:
            return self.score_without_recurrence(images, captions)
        count = len(images[0].lengths)
        everyone = torch.arange(count, device=self.device)
        every_pair = everyone.expand(len(captions[0].lengths), -1)
        return self.score_selected(images, captions, every_pair).T

    def score_split(self, split: Split) -> SplitScores:
        """Scores of a split, with recurrence those of each caption's shortlist: the images of the
        largest early scores, `shortlist` of them.

        The others score less than their similarity without recurrence by the range of all
        similarities of the split, at least by LEAST_MOVE: none ranks above one of the shortlist.
        Without recurrence a shortlist decides the order alone, so that a reference is cut as the
        recurrent is. Memory holds all embedded images and one block of pairs.

        Args:
            split: N images and M captions.

        Returns:
            Scores (N, M) float32, and the `index` vectors of both sides.
        """
        with evaluating(self):
            images = embed_all_images(self, split)
            scores = np.empty((len(split.image_ids), len(split.caption_ids)), np.float32)
            is_moved = np.zeros(scores.shape, bool)
            caption_vectors = []
            for rows in in_blocks(len(split.caption_ids), CAPTION_BLOCK):
                words: Any = split.captions(rows)
                captions = self.embed_captions(to_device(words, self.device))
                caption_vectors.append(self.index(captions).cpu().numpy())
                block, is_beyond = self.score_by_shortlist(images, captions)
                scores[:, rows] = block.cpu().numpy()
                is_moved[:, rows] = is_beyond.cpu().numpy()
            image_vectors = self.index(images).cpu().numpy()
        move = max(LEAST_MOVE, np.ptp(scores).item())
        np.subtract(scores, move, out=scores, where=is_moved)
        return scores_of(split, scores, image_vectors, np.concatenate(caption_vectors))

    def score_by_shortlist(self, images: Sides, captions: Sides) -> tuple[Tensor, Tensor]:
        """Scores before any is moved, with recurrence in the shortlist alone.

        Args:
            images: N images.
            captions: M captions.

        Returns:
            Scores (N, M), and which images are beyond the shortlist, (N, M) bool.
        """
        early = self.sums(images) @ self.sums(captions).T
        count = min(self.shortlist or len(early), len(early))
        if count == len(early):
            return self.score(images, captions), torch.zeros_like(early, dtype=torch.bool)
        scores = self.score_without_recurrence(images, captions)
        selected = early.T.topk(count, dim=1).indices
        if self.uses_recurrence:
            in_full = self.score_selected(images, captions, selected)
            scores = scores.scatter(0, selected.T, in_full.T)
        is_beyond = torch.ones_like(early, dtype=torch.bool).scatter(0, selected.T, False)
        return scores, is_beyond

    def score_without_recurrence(self, images: Sides, captions: Sides) -> Tensor:
        """Similarities of all pairs by the matching alone, IMAGE_BLOCK images at a time.

        Args:
            images: N images.
            captions: M captions.

        Returns:
            (N, M).
        """
        blocks = []
        for start in range(0, len(images[0].lengths), IMAGE_BLOCK):
            some = part_of(images, slice(start, start + IMAGE_BLOCK))
            towers = zip(self.networks, some, captions, strict=True)
            scores = [tower.score(left, right) for tower, left, right in towers]
            blocks.append(torch.stack(scores).mean(0))
        return torch.cat(blocks)

    def score_selected(self, images: Sides, captions: Sides, selected: Tensor) -> Tensor:
        """Similarities with recurrence, PAIR_BLOCK pairs at a time.

        Args:
            images: N images.
            captions: M captions.
            selected: (M, S) numbers of images.

        Returns:
            (M, S).
        """
        height = max(1, PAIR_BLOCK // selected.shape[1])
        lines = []
        for start in range(0, len(selected), height):
            rows = slice(start, start + height)
            some = part_of(captions, rows)
            parts = []
            for numbers in selected[rows].split(PAIR_BLOCK, dim=1):
                towers = zip(self.networks, images, some, strict=True)
                scores = [each.score_selected(left, right, numbers) for each, left, right in towers]
                parts.append(torch.stack(scores).mean(0))
            lines.append(torch.cat(parts, dim=1))
        return torch.cat(lines)

    # ---- training, of one network after the other

    def single(self, name: str) -> "DPRNN":
        """The network `name` as a model of its own, whose weights are the same in memory."""
        model = copy(self)  # with the buffers of this one
        model._modules = {"towers": nn.ModuleDict({name: self.towers[name]})}
        return model

    def parts(self) -> dict[str, Model]:
        """Each network as a model of its own, with a loss of its own; one alone is this model."""
        if len(self.towers) == 1:
            return {"": self}
        networks: dict[str, Model] = {name: self.single(name) for name in self.towers}
        for network in networks.values():
            network.criterion = deepcopy(self.criterion)
        return networks

    def phases(self, data: RetrievalData, run: Run) -> list[Phase]:
        """The three phases of the paper, after the warm-up where the loss needs one. Without
        recurrence all epochs that train the rest are one. The last phase's best epoch is kept.

        Args:
            data: What they are trained and validated on.
            run: Names the ranking loss.

        Returns:
            Up to four phases, each of at least one epoch.
        """
        training = self.config.training
        epochs = training.epochs
        counts = {"matching": epochs.matching, "recurrent": epochs.recurrent, "all": epochs.all}
        if not self.config.recurrent:
            counts = {"matching": epochs.matching + epochs.all}
        warm_up = min(training.warmup_epochs if warms_up(run.loss) else 0, counts["matching"])
        counts["matching"] -= warm_up
        planned = [("matching", warm_up, self.ranking_loss(run, WARM_UP))]
        planned += [(name, count, self.criterion["ranking"]) for name, count in counts.items()]
        planned = [phase for phase in planned if phase[1]]
        last = planned[-1][0]
        batches = PairBatches(data.split("train"), training.batch_size, run.seed)
        val = data.split("val")
        return [
            Phase(name, count, batches, val, ranking=ranking, selects=name == last)
            for name, count, ranking in planned
        ]

    def enter(self, phase: Phase) -> None:
        """Set what learns, and whether scores are with recurrence."""
        self.recurrence.fill_(phase.name != "matching")
        for tower in self.networks:
            tower.requires_grad_(phase.name != "recurrent")
            if tower.recurrent is not None:
                tower.recurrent.requires_grad_(phase.name != "matching")

    def pairs(self, images: Sides, captions: Sides, batch: Batch, rows: Tensor) -> Pairs:
        """Scores in training of the one network; with recurrence those of true pairs and of the
        images that the early score selects.

        Args:
            images: I embedded images.
            captions: m embedded captions.
            batch: The whole batch.
            rows: (m,) which of its captions these are, and so their images.

        Returns:
            Scores (I, m), zero where not computed.
        """
        (tower,) = self.networks
        (left,) = images
        (right,) = captions
        if not self.uses_recurrence:
            return Pairs(tower.score(left, right))
        early = tower.early_scores(left, right)
        is_same = batch.image_groups[:, None] == batch.caption_groups[rows]
        selected, is_valid = select_early(early, is_same, rows, self.config.candidates)
        in_full = tower.score_selected(left, right, selected).masked_fill(~is_valid, 0.0)
        empty = in_full.new_zeros(early.shape)
        # added, not put: a column without enough candidates may name its own image twice
        scores = empty.scatter_add(0, selected.T, in_full.T)
        times = empty.scatter_add(0, selected.T, is_valid.T.to(empty.dtype))
        return Pairs(scores, times > 0)

    def validate(self, val: Split) -> Validation:
        """Recalls by the mean of the networks' scores, each of which has a shortlist of its own;
        and how even the weights of words and objects are.

        Args:
            val: The validation split.

        Returns:
            The validation; its columns have val_word_entropy and val_object_entropy, of the
            networks whose weights are learnt.
        """
        found = []
        for name in self.towers:
            network = self.single(name)
            network.shortlist = self.config.validation_shortlist if self.uses_recurrence else None
            found.append(network.score_split(val))
        mean = replace(found[0], scores=np.stack([each.matrix for each in found]).mean(0))
        whose = f"the {name} network's" if len(found) == 1 else "the"
        validation = validate_retrieval(mean, whose)
        return replace(validation, columns=validation.columns | self.entropies(val))

    def entropies(self, split: Split) -> Row:
        """Mean entropies of the learnt weights in the true pairs of a split, as `entropy_share`:
        val_word_entropy of the word-oriented network, val_object_entropy of the other."""
        return {
            f"val_{name}_entropy": mean_entropy(tower, split, self.uses_recurrence)
            for name, tower in zip(self.towers, self.networks, strict=True)
            if tower.match.has_weights
        }

    # ---- pictures

    @torch.no_grad()
    def attention(self, images: Regions, captions: Words) -> AttentionView:  # type: ignore[override]
        """Figures 3 and 4 of the paper: attention (eq. 8) and order are the first network's, word
        weights (eq. 10) the word-oriented one's, object weights (eq. 11) the object-oriented one's.

        Args:
            images: One image, without padding.
            captions: One caption, without padding.

        Returns:
            What a picture shows; the score is that of all networks.
        """
        left = self.embed_images(images)
        right = self.embed_captions(captions)
        count = int(images.counts[0])
        length = int(captions.lengths[0])
        weights = {
            name: tower.compute_pair_weights(image, caption, self.uses_recurrence)[0]
            for name, tower, image, caption in zip(
                self.towers, self.networks, left, right, strict=True
            )
            if tower.match.has_weights
        }
        tower = self.networks[0]
        order = None
        if self.uses_recurrence:
            first = torch.zeros(1, 1, dtype=torch.int64, device=self.device)
            order = tower.order(left[0], right[0], first)[0, 0]
        return AttentionView(
            score=self.score(left, right).item(),
            weights=tower.compute_attention(left[0], right[0], order)[:length, :count],
            word_weights=weights["word"][:length] if "word" in weights else None,
            region_weights=weights["object"][:count] if "object" in weights else None,
            order=None if order is None else order[:count],
        )


def select_early(
    early: Tensor, is_same: Tensor, own: Tensor, candidates: int
) -> tuple[Tensor, Tensor]:
    """For each caption its own image, first, and the images of the largest early scores.

    Args:
        early: (N, M) S_em, images in rows.
        is_same: (N, M) bool, pairs of one group, which are not each other's negatives.
        own: (M,) the image of each caption.
        candidates: Images per caption beside its own.

    Returns:
        Numbers of images (M, S), and which of them are valid, (M, S) bool: a caption may have fewer
        candidates than S - 1.
    """
    others = early.masked_fill(is_same, -torch.inf).T
    best = others.topk(min(candidates, len(early) - 1), dim=1)
    is_own = torch.ones_like(own[:, None], dtype=torch.bool)
    is_valid = torch.cat([is_own, best.values > -torch.inf], dim=1)
    return torch.cat([own[:, None], best.indices], dim=1), is_valid


@torch.inference_mode()
def mean_entropy(tower: OrientedTower, split: Split, has_recurrence: bool) -> float:
    """How even the weights of a network are in the true pairs of a split.

    Args:
        tower: Its weights of words, or of objects, are learnt.
        split: M captions with their images.
        has_recurrence: Whether objects are those after the recurrent visual embedding.

    Returns:
        The mean `entropy_share`.
    """
    device = next(tower.parameters()).device
    shares = []
    for rows in in_blocks(len(split.caption_ids), CAPTION_BLOCK):
        regions: Any = split.images(split.described[rows])
        words: Any = split.captions(rows)
        images = tower.embed_images(to_device(regions, device))
        captions = tower.embed_captions(to_device(words, device))
        weights = tower.compute_pair_weights(images, captions, has_recurrence)
        counts = captions.lengths if tower.match.by_words else images.lengths
        shares.append(entropy_share(weights, counts))
    return torch.cat(shares).mean().item()


def entropy_share(weights: Tensor, counts: Tensor) -> Tensor:
    """Entropies of weights as shares of the entropy of even weights: 1 is even, 0 is all on one.

    Args:
        weights: (B, L), zero beyond the counts.
        counts: (B,) how many of the L there are.

    Returns:
        One share for each row of two places or more; the others are left out.
    """
    has_several = counts > 1
    rows = weights[has_several].double()
    return torch.special.entr(rows).sum(1) / counts[has_several].double().log()
