"""DP-RNN as a system: regions and word ids in, ranking losses on computed pairs out."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from models.base.model import Settings, TrainingJob
from models.base.phases import Trained, by_own_loss, by_warm_up, chosen_loss, warm_up_epochs
from models.base.preparing import set_first_weights, training_job
from models.base.scoring import split_scorer
from models.dp_rnn.loss import NetworksLoss
from models.dp_rnn.network import DPRNN, TOWERS
from models.dp_rnn.scoring import score_selecting
from models.dp_rnn.validation import Validation, judge_networks, validate
from models.ranking.loss import RankingLoss
from pipeline.evaluation.score_file import SplitScores
from pipeline.inputs.batches import Batch, PairBatches
from pipeline.inputs.files import Inputs
from pipeline.inputs.regions import RegionInputs, require_boxes
from pipeline.storage.checkpoint import Checkpoint
from pipeline.training.phases import Fitted, Phase
from pipeline.training.processes import divided, on_first

# Keys of the section that the training reads; the others are the network's.
OF_TRAINING = {"word_vectors", "standardise_images", "validation_shortlist", "margin", "training"}


def prepare(settings: Settings, inputs: Inputs, device: torch.device) -> TrainingJob:
    config, opened = settings.config, RegionInputs(inputs)
    training = config.training
    architecture = config.model_dump(exclude=OF_TRAINING) | opened.sizes
    model = DPRNN(**architecture)
    train, val = opened.split("train"), opened.split("val")
    if config.position_gate:
        require_boxes(opened.features, "dp_rnn.position_gate")
    set_first_weights(model, config, opened, train)
    rankings = {name: chosen_loss(settings) for name in model.towers}
    trained = Trained(model, NetworksLoss(rankings, training.reduction)).to(device)
    validation = partial(validate, model, val, device, config.validation_shortlist)
    job = training_job(
        "dp_rnn",
        settings,
        opened,
        architecture,
        trained,
        phases_of(settings),
        PairBatches(train, training.batch_size, settings.seed),
        validation,
        judge=judge_networks,
        parts={name: weights_of(name) for name in model.towers},
    )
    return replace(job, run=lambda resume: validated(trained, job.run(resume), validation))


def weights_of(name: str) -> tuple[str, ...]:
    """What the names of the weights of one network begin with in a Trained, its loss's included.
    The flag of recurrence is the same for all networks in every phase that may be kept."""
    network = f"{Trained.KEPT}towers.{name}."
    return network, f"{Trained.KEPT}recurrence", f"loss.pairs.{name}."


def validated(trained: Trained, fitted: Fitted, validation: Callable[[], Validation]) -> Fitted:
    """The outcome with the validation of the kept weights, which `trained` then holds: each network
    of its own best epoch."""
    trained.load_state_dict(fitted.weights)
    return replace(fitted, together=on_first(lambda: judge_networks(validation(), []).columns))


def uses_shortlist(checkpoint: Checkpoint) -> bool:
    """Whether the weights score some images of a caption with recurrence."""
    return bool(checkpoint.weights.get("recurrence", torch.zeros(())).any())


def scorer(
    checkpoint: Checkpoint, inputs: Inputs, device: torch.device, shortlist: int | None = None
) -> Callable[[str], SplitScores]:
    """As models.base.scoring.split_scorer; shortlist: as in score_selecting."""
    score = partial(score_selecting, shortlist=shortlist)
    return split_scorer(RegionInputs, DPRNN, checkpoint, inputs, device, score)


def phases_of(settings: Settings) -> list[Phase]:
    """The three phases of the paper, after the warm-up where the loss needs one; without recurrence
    all epochs that train the rest are one."""
    config, epochs = settings.config, settings.config.training.epochs
    counts = {"matching": epochs.matching, "recurrent": epochs.recurrent, "all": epochs.all}
    if not config.recurrent:
        counts = {"matching": epochs.matching + epochs.all}
    warm_up = min(warm_up_epochs(settings), counts["matching"])
    names, reduction = TOWERS[config.orientation], config.training.reduction

    def wrap(ranking: RankingLoss) -> NetworksLoss:
        return NetworksLoss(dict.fromkeys(names, ranking), reduction)

    planned = [("matching", warm_up, by_warm_up(settings, wrap, scores_and_groups))]
    planned += [
        (name, count - (warm_up if name == "matching" else 0), by_own_loss(scores_and_groups))
        for name, count in counts.items()
    ]
    last = [name for name, count in counts.items() if count][-1]
    return [
        Phase(
            name=name,
            epochs=count,
            objective=objective,
            prepare=lambda both, name=name: both.network.enter_phase(name),  # type: ignore[misc]
            selects=name == last,
        )
        for name, count, objective in planned
        if count
    ]


def scores_and_groups(model: DPRNN, batch: Batch) -> tuple[Any, ...]:
    """What each network computed of a batch's images and captions, and which are no negatives."""
    sides = *batch.images.tensors, batch.captions, batch.lengths
    return model(*sides, batch.groups, divided), batch.groups, batch.related
