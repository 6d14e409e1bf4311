"""SCAN as a system: regions and word ids in, a ranking loss on attended cosines out."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from models.attention.inputs import identity, open_inputs, prepare_weights, sizes, splits
from models.attention.scoring import score_pairs
from models.base.model import Settings, TrainingJob
from models.base.phases import ranking_phases
from models.losses.ranking import RankingLoss
from models.scan.network import SCAN
from pipeline.inputs.batches import Batch, PairBatches
from pipeline.inputs.files import Inputs
from pipeline.scores.file import SplitScores
from pipeline.storage.checkpoint import Checkpoint
from pipeline.training.loop import fit
from pipeline.training.phases import Schedule

ATTENTION = ("direction", "pooling", "temperature", "lse", "position_gate")


def prepare(settings: Settings, inputs: Inputs, device: torch.device) -> TrainingJob:
    """The network with its first weights, its data and phases; the generators must be seeded."""
    config, ranking = settings.config, settings.ranking
    training = config.training
    used: dict[str, Any] = {"loss": settings.loss, "seed": settings.seed}
    used |= {"ranking": ranking.model_dump(), "scan": config.model_dump()}
    vocabulary, regions = open_inputs(inputs)
    architecture = sizes(config, vocabulary, regions) | config.model_dump(include=set(ATTENTION))
    model = SCAN(**architecture)
    train, val = map(splits(inputs, vocabulary, regions), ("train", "val"))
    prepare_weights(model, config, "scan", inputs, train)
    model.to(device)
    make_loss = partial(RankingLoss, **ranking.model_dump(exclude={"warmup_epochs"}))
    return TrainingJob(
        run=partial(
            fit,
            model,
            torch.optim.Adam(model.parameters(), lr=training.lr),
            ranking_phases(settings.loss, ranking, training.epochs, make_loss, scores_and_groups),
            PairBatches(train, training.batch_size, settings.seed),
            lambda: score_pairs(model, val, device),
            Schedule(training.lr_step, training.lr_factor, training.clip, training.precision),
        ),
        architecture=architecture,
        params=used,
        inputs=identity(vocabulary, regions),
    )


def scorer(
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
