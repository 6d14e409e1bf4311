"""The two-branch network on regions and phrases: trained on pairs, then on hard negatives."""

from dataclasses import replace
from functools import partial

import torch

from models.base.model import Settings, TrainingJob
from models.base.phases import (
    Trained,
    advice,
    by_own_loss,
    chosen_loss,
    optimiser_of,
    ranking_phases,
    schedule,
)
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
from pipeline.training.phases import Fitted, Phase
from pipeline.training.processes import divided, on_first
from pipeline.training.resume import ResumeFile

NETWORK = TwoBranch
NAME = "phrase_two_branch"


def prepare(settings: Settings, inputs: PhraseInputs, device: torch.device) -> TrainingJob:
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
    both = Trained(model, phrase_loss(settings, chosen_loss(settings))).to(device)
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
    """Train on pairs, take the best weights, mine with them and fine-tune them; the best epoch of
    the fine-tuning is kept even where it is worse."""
    config = settings.config
    extra = int(config.weights.sentence_sentence > 0), int(config.weights.image_image > 0)
    batches = PhraseBatches(data, config.training.batch_size, settings.seed, *extra)
    validation = PhraseValidation(both.network, opened, device)
    phases = ranking_phases(settings, partial(phrase_loss, settings), arguments)
    first = fitted(settings, both, phases, batches, validation, config.training.lr, resume)
    if not config.mining.epochs:
        return first
    both.load_state_dict(first.weights)
    both.train(False)
    mined = on_first(lambda: mine(both.network, data, opened, config.mining, settings.seed, device))
    say(f"{NAME}: {len(mined.phrases):,} hard negatives of {len(set(mined.phrases)):,} phrases, "
        f"of {data.related.shape[1]:,}")  # fmt: skip
    # without the terms within each view: those across the views outnumber them by far
    across = {"image_image": 0.0, "sentence_sentence": 0.0}
    tuned = Trained(both.network, phrase_loss(settings, chosen_loss(settings), **across)).to(device)
    hard = PhraseBatches(data, config.mining.batch_size, settings.seed + 1, mined=mined,
                         sampled=config.mining.sampled)  # fmt: skip
    phases = [Phase("mining", config.mining.epochs, by_own_loss(arguments))]
    beside = ResumeFile(resume.path.parent / "mining", resume.fingerprint)
    second = fitted(settings, tuned, phases, hard, validation, config.mining.lr, beside)
    on_first(beside.remove)
    past = len(first.history)
    later = [row | {name: row[name] + past for name in ("epoch", "best")} for row in second.history]
    return replace(second, epoch=second.epoch + past, history=first.history + later)


def phrase_loss(settings: Settings, ranking: RankingLoss, **weights: float) -> PhraseLoss:
    """The loss of a batch; weights: of terms, in place of those of the settings."""
    config = settings.config
    options = config.weights.model_dump() | weights
    options |= config.model_dump(include={"margin", "structure_k"})
    options["reduction"] = config.training.reduction
    return PhraseLoss(StructureLoss(ranking, **options))


def fitted(
    settings: Settings,
    both: Trained,
    phases: list[Phase],
    batches: PhraseBatches,
    validation: PhraseValidation,
    lr: float,
    resume: ResumeFile,
) -> Fitted:
    training = settings.config.training
    learning = optimiser_of(training, both.parameters(), lr)
    parts = both, learning, phases, batches, validation, schedule(training), resume
    return fit(*parts, judge=validation.judged, advice=advice(settings, NAME))


def arguments(model: TwoBranch, batch: PhraseBatch) -> tuple[torch.Tensor, ...]:
    """Unit rows of a batch's regions (R, K) and phrases (C, K), and its masks."""
    embedded = model(batch.regions, batch.phrases, divided)
    return *embedded, batch.pairs, batch.same, batch.same_regions, batch.same_phrases
