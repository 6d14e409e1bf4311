"""DP-RNN as a system: regions and word ids in, ranking losses on computed pairs out."""

from collections.abc import Callable
from typing import Any

import torch

from models.dp_rnn import DPRNN
from models.losses.early_selection import ComputedPairsLoss
from pipeline.batches import PairBatches
from pipeline.checkpoint import Checkpoint
from pipeline.dp_rnn_scoring import score_selecting
from pipeline.phases import Schedule
from pipeline.score_file import SplitScores
from pipeline.sections import Params
from stages.systems import Inputs, TrainingJob
from stages.systems.dp_rnn_phases import phases_of
from stages.systems.regions import identity, open_inputs, prepare_weights, sizes, splits

NOT_OF_THE_NETWORK = {"word_vectors", "standardise_images", "validation_shortlist", "training"}


def prepare_training(params: Params, inputs: Inputs, device: torch.device) -> TrainingJob:
    """The network with its first weights, its data and phases; the generators must be seeded."""
    own, training, ranking = params.dp_rnn, params.dp_rnn.training, params.ranking
    used: dict[str, Any] = {"loss": params.loss, "seed": params.seed}
    used |= {"ranking": ranking.model_dump(), "dp_rnn": own.model_dump()}
    vocabulary, regions = open_inputs(inputs)
    architecture = own.model_dump(exclude=NOT_OF_THE_NETWORK)
    architecture |= sizes(own, vocabulary, regions)
    model = DPRNN(**architecture)
    train, val = map(splits(inputs, vocabulary, regions), ("train", "val"))
    prepare_weights(model, own, "dp_rnn", inputs, train)
    model.to(device)
    shortlist = own.validation_shortlist
    loss = ComputedPairsLoss(params.loss, **ranking.model_dump(exclude={"warmup_epochs"}))
    return TrainingJob(
        model=model,
        optimiser=torch.optim.Adam(model.parameters(), lr=training.lr),
        phases=phases_of(own, loss),
        batches=PairBatches(train, training.batch_size, params.seed),
        score_validation=lambda: score_selecting(model, val, device, shortlist),
        schedule=Schedule(training.lr_step, training.lr_factor, training.clip, training.precision),
        architecture=architecture,
        params=used,
        inputs=identity(vocabulary, regions),
    )


def uses_shortlist(checkpoint: Checkpoint) -> bool:
    """Whether the weights score some images of a caption with recurrence."""
    return bool(checkpoint.weights.get("recurrence", torch.zeros(())).any())


def prepare_scoring(
    checkpoint: Checkpoint, inputs: Inputs, device: torch.device, shortlist: int = 1
) -> Callable[[str], SplitScores]:
    """A function from a split's name to its scores; the sizes come from the checkpoint.

    shortlist: images per caption that are scored with recurrence; not read by weights that use
    none.
    """
    vocabulary, regions = open_inputs(inputs)
    checkpoint.require(identity(vocabulary, regions))
    model = checkpoint.build(DPRNN).to(device)
    split = splits(inputs, vocabulary, regions)
    return lambda name: score_selecting(model, split(name), device, shortlist)
