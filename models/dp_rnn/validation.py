"""How DP-RNN is validated: each network by its own scores, as if it were trained alone, and the
average of both; and how even the weights of self-attention are."""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from models.base.scoring import in_batches
from models.dp_rnn.network import DPRNN
from models.dp_rnn.scoring import CAPTIONS, score_selecting
from models.dp_rnn.tower import OrientedTower
from pipeline.evaluation.score_file import SplitScores
from pipeline.inputs.batches import Split
from pipeline.training.curve import is_collapsed, validation_columns
from pipeline.training.phases import EpochVerdict, Row


@dataclass(frozen=True)
class Validation:
    """Of the validation split. scores: by the name of the network; entropies: columns of the curve,
    as `entropy_share`: val_word_entropy, val_object_entropy."""

    scores: dict[str, SplitScores]
    entropies: Row


def validate(model: DPRNN, split: Split, device: torch.device, shortlist: int) -> Validation:
    """Score every network, one with recurrence by its own shortlist of images per caption, and
    measure its weights."""
    cut = shortlist if model.use_recurrence else None
    return Validation(
        {name: score_selecting(alone(model, name), split, device, cut) for name in model.towers},
        {
            f"val_{name}_entropy": attention_entropy(tower, split, device, model.use_recurrence)
            for name, tower in zip(model.towers, model.networks(), strict=True)
            if tower.match.weighs
        },
    )


def alone(model: DPRNN, name: str) -> DPRNN:
    """One of the networks as a model of its own, with the same weights in memory."""
    single = copy(model)
    single._modules = {"towers": nn.ModuleDict({name: model.towers[name]})}
    return single


def judge_networks(found: Validation, history: Sequence[Row]) -> EpochVerdict:
    """Of each network the largest rsum is the best; its equal scores are a collapse. The columns of
    the curve are those of the average of all, beside the rsum of each."""
    by_network = {name: validation_columns(scores) for name, scores in found.scores.items()}
    rsums = {name: columns["val_rsum"] for name, columns in by_network.items()}
    matrices = [scores.matrix for scores in found.scores.values()]
    # the mean, as the paper averages its networks
    both = replace(next(iter(found.scores.values())), scores=np.stack(matrices).mean(0))
    columns = validation_columns(both)
    collapsed = ""
    for name, scores in found.scores.items():
        improved = all(rsums[name] > row[f"val_{name}_rsum"] for row in history)
        if is_collapsed(scores, by_network[name], improved):
            collapsed = (
                f"the {name} network's validation scores are nearly equal (standard deviation "
                f"{by_network[name]['val_spread']:.2g}), its rsum is {rsums[name]:.1f}"
            )
    return EpochVerdict(
        columns | {f"val_{name}_rsum": rsum for name, rsum in rsums.items()} | found.entropies,
        f"validation rsum {columns['val_rsum']:.1f}",
        collapsed=collapsed,
        scores=rsums,
    )


@torch.inference_mode()
def attention_entropy(
    tower: OrientedTower, split: Split, device: torch.device, recurrent: bool
) -> float:
    """The mean `entropy_share` of the tower's weights in a split's true pairs: word weights of the
    word network, object weights of the other, after the recurrent embedding if `recurrent`."""
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


def entropy_share(weights: Tensor, counts: Tensor) -> Tensor:
    """Entropies of weights (B, L) over the first counts (B,), as shares of the entropy of even
    weights: 1 is even, 0 is all on one; rows with fewer than two places are left out."""
    several = counts > 1
    rows = weights[several].double()
    return torch.special.entr(rows).sum(1) / counts[several].double().log()
