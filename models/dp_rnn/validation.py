"""How DP-RNN is validated: each network by its own scores, as if it were trained alone, and the
average of both; and how far self-attention is from weighing everything evenly."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from models.base.scoring import in_batches
from models.dp_rnn.network import DPRNN, Sides
from models.dp_rnn.scoring import CAPTIONS, score_selecting
from models.dp_rnn.tower import OrientedTower
from pipeline.inputs.batches import Split
from pipeline.scores.file import SplitScores
from pipeline.training.curve import is_collapsed, validation_columns
from pipeline.training.phases import EpochVerdict, Row


class OneNetwork:
    """One tower as a models.dp_rnn.scoring.SelectingModel; what it embeds is a list of one Side."""

    def __init__(self, model: DPRNN, tower: OrientedTower) -> None:
        self.tower, self.training, self.use_recurrence = tower, tower.training, model.use_recurrence

    def train(self, mode: bool = True) -> object:
        """Put the tower into training mode, or out of it."""
        self.training = mode
        return self.tower.train(mode)

    def embed_images(self, *regions: torch.Tensor) -> Sides:
        """As models.dp_rnn.network.DPRNN does."""
        return [self.tower.embed_images(*regions)]

    def embed_captions(self, tokens: torch.Tensor, lengths: torch.Tensor) -> Sides:
        """As models.dp_rnn.network.DPRNN does."""
        return [self.tower.embed_captions(tokens, lengths)]

    def image_vectors(self, images: Sides) -> torch.Tensor:
        """(N, K)."""
        return self.tower.image_sums(images[0])

    def caption_vectors(self, captions: Sides) -> torch.Tensor:
        """(M, K)."""
        return self.tower.caption_sums(captions[0])

    def score(self, images: Sides, captions: Sides) -> torch.Tensor:
        """Similarity (N, M) without recurrence."""
        return self.tower.score(images[0], captions[0])

    def score_selected(
        self, images: Sides, captions: Sides, selected: torch.Tensor
    ) -> torch.Tensor:
        """Similarity with recurrence of captions and a selection of images.

        Args:
            images: N.
            captions: M.
            selected: (M, S) numbers of the images to compare each caption with.

        Returns:
            (M, S).
        """
        return self.tower.score_selected(images[0], captions[0], selected)


@dataclass(frozen=True)
class Validation:
    """What the networks make of the validation split.

    Attributes:
        scores: by the name of the network.
        entropies: columns of the curve, as `entropy_share`: val_word_entropy, val_object_entropy.
    """

    scores: dict[str, SplitScores]
    entropies: Row


def validate(model: DPRNN, split: Split, device: torch.device, shortlist: int) -> Validation:
    """Score and look into every network.

    Args:
        model: on the device.
        split: its images are pipeline.inputs.regions.Regions.
        device: where the model is.
        shortlist: images per caption that are scored in full, by each network's own choice.
    """
    towers = dict(zip(model.towers, model.networks(), strict=True))
    return Validation(
        {
            name: score_selecting(OneNetwork(model, tower), split, device, shortlist)
            for name, tower in towers.items()
        },
        {
            f"val_{name}_entropy": attention_entropy(tower, split, device, model.use_recurrence)
            for name, tower in towers.items()
            if tower.match.weighs
        },
    )


def judge_networks(found: Validation, history: Sequence[Row]) -> EpochVerdict:
    """Of each network the largest rsum is the best; its equal scores are a collapse.

    The columns of the curve are those of the average of all, beside the rsum of each.
    """
    each = {name: validation_columns(scores) for name, scores in found.scores.items()}
    rsums = {name: columns["val_rsum"] for name, columns in each.items()}
    columns = validation_columns(average(list(found.scores.values())))
    collapsed = ""
    for name, scores in found.scores.items():
        improved = all(rsums[name] > row[f"val_{name}_rsum"] for row in history)
        if is_collapsed(scores, each[name], improved):
            collapsed = (
                f"the {name} network's validation scores are nearly equal (standard deviation "
                f"{each[name]['val_spread']:.2g}), its rsum is {rsums[name]:.1f}"
            )
    return EpochVerdict(
        columns | {f"val_{name}_rsum": rsum for name, rsum in rsums.items()} | found.entropies,
        f"validation rsum {columns['val_rsum']:.1f}",
        collapsed=collapsed,
        scores=rsums,
    )


def average(scores: Sequence[SplitScores]) -> SplitScores:
    """The mean of scores of the same images and captions, as the paper averages its networks."""
    return replace(scores[0], scores=np.stack([one.matrix for one in scores]).mean(0))


@torch.inference_mode()
def attention_entropy(
    tower: OrientedTower, split: Split, device: torch.device, recurrent: bool
) -> float:
    """The mean `entropy_share` of the tower's weights in a split's true pairs.

    Args:
        tower: on the device; word weights of the word network, object weights of the other.
        split: with at least one pair of two words, or objects.
        device: where the tower is.
        recurrent: whether objects are weighed after the recurrent embedding.
    """
    shares = []
    for rows in in_batches(len(split.caption_ids), CAPTIONS):
        tokens, lengths = split.captions(rows)
        regions: Any = split.images(split.described[rows]).to(device)
        images = tower.embed_images(regions.features, regions.positions, regions.counts)
        captions = tower.embed_captions(tokens.to(device), lengths)
        weights = tower.pair_shares(images, captions, recurrent)
        counts = captions.lengths if tower.match.by_words else images.lengths
        shares.append(entropy_share(weights, counts))
    return torch.cat(shares).mean().item()


def entropy_share(weights: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
    """Entropies of weights (B, L) over the first counts (B,), as shares of that of even weights.

    1 is even, 0 is all on one; rows with fewer than two places are left out: theirs is always 0.
    """
    several = counts > 1
    own = weights[several].double()
    return torch.special.entr(own).sum(1) / counts[several].double().log()
