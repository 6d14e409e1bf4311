"""DP-RNN as a system: regions and word ids in, ranking losses on computed pairs out."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from models.attention.inputs import identity, open_inputs, prepare_weights, sizes, splits
from models.base.model import Settings, TrainingJob
from models.dp_rnn.loss import ComputedPairsLoss
from models.dp_rnn.network import DPRNN
from models.dp_rnn.params import DPRNNConfig
from models.dp_rnn.scoring import score_selecting
from pipeline.inputs.batches import Batch, PairBatches
from pipeline.inputs.files import Inputs
from pipeline.scores.file import SplitScores
from pipeline.storage.checkpoint import Checkpoint
from pipeline.training.loop import fit
from pipeline.training.phases import Phase, Schedule

NOT_OF_THE_NETWORK = {"word_vectors", "standardise_images", "validation_shortlist", "training"}


def prepare(settings: Settings, inputs: Inputs, device: torch.device) -> TrainingJob:
    """The network with its first weights, its data and phases; the generators must be seeded."""
    config, ranking = settings.config, settings.ranking
    training = config.training
    used: dict[str, Any] = {"loss": settings.loss, "seed": settings.seed}
    used |= {"ranking": ranking.model_dump(), "dp_rnn": config.model_dump()}
    vocabulary, regions = open_inputs(inputs)
    architecture = config.model_dump(exclude=NOT_OF_THE_NETWORK)
    architecture |= sizes(config, vocabulary, regions)
    model = DPRNN(**architecture)
    train, val = map(splits(inputs, vocabulary, regions), ("train", "val"))
    prepare_weights(model, config, "dp_rnn", inputs, train)
    model.to(device)
    shortlist = config.validation_shortlist
    loss = ComputedPairsLoss(settings.loss, **ranking.model_dump(exclude={"warmup_epochs"}))
    return TrainingJob(
        run=partial(
            fit,
            model,
            torch.optim.Adam(model.parameters(), lr=training.lr),
            phases_of(config, loss),
            PairBatches(train, training.batch_size, settings.seed),
            lambda: score_selecting(model, val, device, shortlist),
            Schedule(training.lr_step, training.lr_factor, training.clip, training.precision),
        ),
        architecture=architecture,
        params=used,
        inputs=identity(vocabulary, regions),
    )


def uses_shortlist(checkpoint: Checkpoint) -> bool:
    """Whether the weights score some images of a caption with recurrence."""
    return bool(checkpoint.weights.get("recurrence", torch.zeros(())).any())


def scorer(
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


def phases_of(config: DPRNNConfig, loss: ComputedPairsLoss) -> list[Phase]:
    """The three phases of the paper; without recurrence all epochs that train the rest are one."""
    epochs = config.training.epochs
    counts = {"matching": epochs.matching, "recurrent": epochs.recurrent, "all": epochs.all}
    if not config.recurrent:
        counts = {"matching": epochs.matching + epochs.all}

    def objective(model: DPRNN, batch: Batch) -> torch.Tensor:
        images = batch.images
        sides = images.features, images.positions, images.counts, batch.captions, batch.lengths
        pairs = model(*sides, batch.groups)
        return torch.stack([loss(*tower, batch.groups) for tower in pairs]).sum()

    return [
        Phase(
            name=name,
            epochs=count,
            objective=objective,
            prepare=lambda model, name=name: model.enter_phase(name),  # type: ignore[misc]
            selects=name == list(counts)[-1] or (name == "recurrent" and not epochs.all),
        )
        for name, count in counts.items()
        if count
    ]
