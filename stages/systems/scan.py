"""SCAN as a system: regions and word ids in, a ranking loss on attended cosines out."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from models.losses.ranking import RankingLoss
from models.scan import SCAN
from pipeline.batches import Batch, PairBatches
from pipeline.checkpoint import Checkpoint
from pipeline.pair_scoring import score_pairs
from pipeline.phases import Schedule
from pipeline.score_file import SplitScores
from pipeline.sections import Params
from stages.systems import Inputs, TrainingJob
from stages.systems.ranking import ranking_phases
from stages.systems.regions import identity, open_inputs, prepare_weights, sizes, splits

ATTENTION = ("direction", "pooling", "temperature", "lse", "position_gate")


def prepare_training(params: Params, inputs: Inputs, device: torch.device) -> TrainingJob:
    """The network with its first weights, its data and phases; the generators must be seeded."""
    own, training, ranking = params.scan, params.scan.training, params.ranking
    used: dict[str, Any] = {"loss": params.loss, "seed": params.seed}
    used |= {"ranking": ranking.model_dump(), "scan": own.model_dump()}
    vocabulary, regions = open_inputs(inputs)
    architecture = sizes(own, vocabulary, regions) | own.model_dump(include=set(ATTENTION))
    model = SCAN(**architecture)
    train, val = map(splits(inputs, vocabulary, regions), ("train", "val"))
    prepare_weights(model, own, "scan", inputs, train)
    model.to(device)
    make_loss = partial(RankingLoss, **ranking.model_dump(exclude={"warmup_epochs"}))
    return TrainingJob(
        model=model,
        optimiser=torch.optim.Adam(model.parameters(), lr=training.lr),
        phases=ranking_phases(params.loss, ranking, training.epochs, make_loss, scores_and_groups),
        batches=PairBatches(train, training.batch_size, params.seed),
        score_validation=lambda: score_pairs(model, val, device),
        schedule=Schedule(training.lr_step, training.lr_factor, training.clip, training.precision),
        architecture=architecture,
        params=used,
        inputs=identity(vocabulary, regions),
    )


def prepare_scoring(
    checkpoint: Checkpoint, inputs: Inputs, device: torch.device
) -> Callable[[str], SplitScores]:
    """A function from a split's name to its scores; the sizes come from the checkpoint."""
    vocabulary, regions = open_inputs(inputs)
    checkpoint.require(identity(vocabulary, regions))
    model = checkpoint.build(SCAN).to(device)
    split = splits(inputs, vocabulary, regions)
    return lambda name: score_pairs(model, split(name), device)


def scores_and_groups(model: SCAN, batch: Batch) -> tuple[torch.Tensor, ...]:
    """(B, B) similarities of a batch's images and captions, and the (B,) groups of its pairs."""
    images = batch.images
    sides = images.features, images.positions, images.counts, batch.captions, batch.lengths
    return model(*sides), batch.groups
