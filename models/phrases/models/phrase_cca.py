"""Canonical correlation analysis of regions and phrases, the baseline (Plummer et al. 2015)."""

import numpy as np
import torch

from models.base.model import Settings, TrainingJob
from models.cca.fit import fit_cca
from models.cca.network import CCA
from models.phrases.data import DRAWN, PhraseInputs, open_phrases, training_pairs
from models.phrases.validation import PhraseValidation
from pipeline.runtime.process import say
from pipeline.training.phases import Fitted
from pipeline.training.resume import ResumeFile

NETWORK = CCA


def prepare(settings: Settings, inputs: PhraseInputs, device: torch.device) -> TrainingJob:
    config, opened = settings.config, open_phrases(inputs)
    data = training_pairs(opened, inputs.truth, settings.seed)
    regions, phrases = opened.widths
    dim = min(config.dim, regions, phrases, len(data.pairs) - 1)
    sizes = {"image_dim": regions, "sentence_dim": phrases, "dim": dim}

    def run(resume: ResumeFile) -> Fitted:
        blocks = np.split(data.pairs, range(4096, len(data.pairs), 4096))
        paired = (
            (data.regions(r).numpy(), data.phrases(p).numpy()) for r, p in (b.T for b in blocks)
        )
        fitted = fit_cca(paired, dim, config.regularisation, len(data.pairs))
        model = CCA(**sizes)
        sides = fitted.image_mean, fitted.image_weights, fitted.sentence_mean
        scales = fitted.correlations**config.power
        model.initialise(*map(torch.from_numpy, (*sides, fitted.sentence_weights, scales)))
        validation = PhraseValidation(model, opened, torch.device("cpu"))
        found = validation.judged(validation(), ())
        say(
            f"phrase_cca: {dim} directions (phrase_cca.dim = {config.dim}) from "
            f"{len(data.pairs):,} pairs, correlations {fitted.correlations[0]:.3f} to "
            f"{fitted.correlations[-1]:.3f}; {found.note}"
        )
        return Fitted(model.state_dict(), 1, [{"epoch": 1, "phase": "fit"} | found.columns])

    used = {"phrase_cca": config.model_dump() | DRAWN, "seed": settings.seed}
    return TrainingJob(run, sizes, used, opened.identity())
