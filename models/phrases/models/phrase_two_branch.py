"""The two-branch network on regions and phrases: trained on pairs, then on hard negatives."""

from dataclasses import replace
from functools import partial
from typing import Any

import torch

from models.base.model import Settings, TrainingJob
from models.base.phases import Trained, advice, by_own_loss, chosen_loss, ranking_phases
from models.phrases.batches import PhraseBatch, PhraseBatches
from models.phrases.data import (
    DRAWN,
    OpenedPhrases,
    PhraseInputs,
    PhrasePairs,
    open_phrases,
    training_pairs,
)
from models.phrases.loss import PhraseLoss
from models.phrases.mining import mine
from models.phrases.validation import PhraseValidation
from models.ranking.loss import RankingLoss
from models.two_branch.loss import StructureLoss
from models.two_branch.network import TwoBranch
from pipeline.runtime.process import say
from pipeline.training.loop import fit
from pipeline.training.phases import Fitted, Phase, Schedule, optimiser
from pipeline.training.processes import divided, on_first
from pipeline.training.resume import ResumeFile

NETWORK = TwoBranch
NAME = "phrase_two_branch"


def prepare(settings: Settings, inputs: PhraseInputs, device: torch.device) -> TrainingJob:
    """The network with its first weights, its data and phases; the generators must be seeded.

    Args:
        settings: the section `phrase_two_branch` and the ranking loss.
        inputs: the artefacts.
        device: where the training runs.

    Raises:
        WorkbenchError: artefacts that are missing, damaged or do not fit the settings.
    """
    config, opened = settings.config, open_phrases(inputs)
    regions, phrases = opened.widths
    hidden = config.hidden if config.branches == "nonlinear" else 0
    sizes = {"image_dim": regions, "sentence_dim": phrases, "hidden": hidden, "dim": config.dim}
    sizes |= {"batch_norm": int(config.batch_norm)}
    model = TwoBranch(**sizes, dropout=config.dropout)
    data = training_pairs(opened, inputs.truth, settings.seed)
    if config.standardise_images:
        model.standardise_images(*data.regions.moments())
    if config.standardise_sentences:
        model.standardise_sentences(*data.phrases.moments())
    both = Trained(model, wrapped(settings, {})(chosen_loss(settings))).to(device)
    run = partial(train, settings, both, data, opened, device)
    used = settings.used(NAME)
    used[NAME] |= DRAWN
    return TrainingJob(run, sizes, used, opened.identity(), Trained.KEPT)


def train(
    settings: Settings,
    both: Trained,
    data: PhrasePairs,
    opened: OpenedPhrases,
    device: torch.device,
    resume: ResumeFile,
) -> Fitted:
    """Train on pairs, take the best weights, mine with them and train them further.

    The fine-tuning is a training of its own: its best epoch is kept, whether or not it is better
    than what it began with.

    Args:
        settings: the section `phrase_two_branch` and the ranking loss.
        both: network and loss.
        data: the training split.
        opened: the artefacts.
        device: where the network is.
        resume: where the state is kept; that of the fine-tuning lies beside it.
    """
    config = settings.config
    wrap = partial(wrapped, settings)
    extra = int(config.weights.sentence_sentence > 0), int(config.weights.image_image > 0)
    batches = PhraseBatches(data, config.training.batch_size, settings.seed, *extra)
    validation = PhraseValidation(both.network, opened, device)
    phases = ranking_phases(settings, wrap({}), arguments)
    first = fitted(settings, both, phases, batches, validation, config.training.lr, resume)
    if not config.mining.epochs:
        return first
    both.load_state_dict(first.weights)
    both.train(False)
    mined = on_first(lambda: mine(both.network, data, opened, config.mining, settings.seed, device))
    say(f"{NAME}: {len(mined.phrases):,} hard negatives of {len(set(mined.phrases)):,} phrases, "
        f"of {data.related.shape[1]:,}")  # fmt: skip
    # the loss of both views' own terms is left out: cross-view terms outnumber them by far
    tuned = Trained(both.network, wrap(CROSS_VIEW)(chosen_loss(settings))).to(device)
    hard = PhraseBatches(data, config.mining.batch_size, settings.seed + 1, mined=mined,
                         sampled=config.mining.sampled)  # fmt: skip
    phases = [Phase("mining", config.mining.epochs, by_own_loss(arguments))]
    beside = ResumeFile(resume.path.parent / "mining", resume.fingerprint)
    second = fitted(settings, tuned, phases, hard, validation, config.mining.lr, beside)
    on_first(beside.remove)
    later = [row | {"epoch": row["epoch"] + len(first.history)} for row in second.history]
    return replace(second, epoch=second.epoch + len(first.history), history=first.history + later)


CROSS_VIEW = {"image_image": 0.0, "sentence_sentence": 0.0}


def wrapped(settings: Settings, weights: dict[str, float]) -> "Any":
    """From a ranking loss to the loss of a batch.

    settings: of the model; weights: of terms, in the place of those of the settings.
    """
    config = settings.config
    options = config.weights.model_dump() | weights
    options |= config.model_dump(include={"margin", "structure_k"})
    options["reduction"] = config.training.reduction

    def wrap(ranking: RankingLoss) -> PhraseLoss:
        return PhraseLoss(StructureLoss(ranking, **options))

    return wrap


def fitted(
    settings: Settings,
    both: Trained,
    phases: list[Phase],
    batches: PhraseBatches,
    validation: PhraseValidation,
    lr: float,
    resume: ResumeFile,
) -> Fitted:
    """One training of the network.

    Args:
        settings: the section `phrase_two_branch` and the ranking loss.
        both: network and loss.
        phases: of the training.
        batches: likewise.
        validation: after every epoch.
        lr: first learning rate.
        resume: where the state is kept.
    """
    training = settings.config.training
    steps = optimiser(training.optimiser, both.parameters(), lr, training.momentum,
                      training.weight_decay)  # fmt: skip
    return fit(
        both,
        steps,
        phases,
        batches,
        validation,
        Schedule(training.lr_step, training.lr_factor, training.clip, training.precision),
        resume,
        judge=validation.judged,
        advice=advice(settings, NAME),
    )


def arguments(model: TwoBranch, batch: PhraseBatch) -> tuple[torch.Tensor, ...]:
    """Unit rows of a batch's regions (R, K) and phrases (C, K), and its masks."""
    embedded = model(batch.regions, batch.phrases, divided)
    return *embedded, batch.pairs, batch.same, batch.same_regions, batch.same_phrases
