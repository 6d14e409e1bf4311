"""The two-branch network on regions and phrases: trained on pairs, then on hard negatives."""

from dataclasses import replace
from functools import partial

import torch

from models.base.model import Settings, TrainingJob
from models.base.phases import Trained, by_own_loss, chosen_loss, fit_by, ranking_phases
from models.phrases.batches import PhraseBatch, PhraseBatches
from models.phrases.data import (
    DRAWN,
    OpenedPhrases,
    PhraseInputs,
    PhrasePairs,
    open_phrases,
    training_pairs,
)
from models.phrases.mining import mine
from models.phrases.validation import PhraseValidation
from models.two_branch.loss import StructureLoss
from models.two_branch.network import TwoBranch
from pipeline.runtime.process import say
from pipeline.training.phases import Fitted, Phase
from pipeline.training.processes import divided, on_first
from pipeline.training.resume import ResumeFile

NETWORK = TwoBranch
NAME = "phrase_two_branch"


class PhraseLoss(StructureLoss):
    """Eq. 5 of Wang et al. 2016 on regions (its images) and phrases (its sentences), which belong
    together many to many: of the six tensors of `of_masks`."""

    forward = StructureLoss.of_masks  # type: ignore[assignment]


def prepare(settings: Settings, inputs: PhraseInputs, device: torch.device) -> TrainingJob:
    config, opened = settings.config, open_phrases(inputs)
    sizes = opened.sizes | config.sizes
    model = TwoBranch(**sizes, dropout=config.dropout)
    data = training_pairs(opened, inputs.truth, settings.seed)
    if config.standardise_images:
        model.image_standardise.fit(*data.regions.moments())
    if config.standardise_sentences:
        model.sentence_standardise.fit(*data.phrases.moments())
    both = Trained(model, PhraseLoss(chosen_loss(settings), **config.terms)).to(device)
    run = partial(train, settings, both, data, opened, device)
    used = settings.used(NAME)
    used[NAME] |= DRAWN
    return TrainingJob(run, sizes, used, opened.identity, Trained.KEPT)


def train(
    settings: Settings,
    both: Trained,
    data: PhrasePairs,
    opened: OpenedPhrases,
    device: torch.device,
    resume: ResumeFile,
) -> Fitted:
    """Train on pairs, take the best weights, mine with them and fine-tune them; the best epoch of
    the fine-tuning is kept even where it is worse."""
    config = settings.config
    batches = PhraseBatches(data, config.training.batch_size, settings.seed, *config.extra)
    validation = PhraseValidation(both.network, opened, device)
    phases = ranking_phases(settings, partial(PhraseLoss, **config.terms), arguments)
    parts = both, phases, batches, validation, resume
    first = fit_by(settings, NAME, *parts, judge=validation.judged)
    if not config.mining.epochs:
        return first
    both.load_state_dict(first.weights)
    both.train(False)
    mined = on_first(lambda: mine(both.network, data, opened, config.mining, settings.seed, device))
    say(f"{NAME}: {len(mined.phrases):,} hard negatives of {len(set(mined.phrases)):,} phrases, "
        f"of {data.related.shape[1]:,}")  # fmt: skip
    # without the terms within each view: those across the views outnumber them by far
    across = config.terms | {"image_image": 0.0, "sentence_sentence": 0.0}
    tuned = Trained(both.network, PhraseLoss(chosen_loss(settings), **across)).to(device)
    hard = PhraseBatches(data, config.mining.batch_size, settings.seed + 1, mined=mined,
                         sampled=config.mining.sampled)  # fmt: skip
    phases = [Phase("mining", config.mining.epochs, by_own_loss(arguments))]
    beside = ResumeFile(resume.path.parent / "mining", resume.fingerprint)
    again = tuned, phases, hard, validation, beside, config.mining.lr
    second = fit_by(settings, NAME, *again, judge=validation.judged)
    on_first(beside.remove)
    past = len(first.history)
    later = [row | {name: row[name] + past for name in ("epoch", "best")} for row in second.history]
    return replace(second, epoch=second.epoch + past, history=first.history + later)


def arguments(model: TwoBranch, batch: PhraseBatch) -> tuple[torch.Tensor, ...]:
    """Unit rows of a batch's regions (R, K) and phrases (C, K), and its masks."""
    embedded = model(batch.regions, batch.phrases, divided)
    return *embedded, batch.pairs, batch.same, batch.same_regions, batch.same_phrases
