"""Canonical correlation analysis of regions and phrases, the baseline (Plummer et al. 2015)."""

from typing import Any

import numpy as np
import torch

from models.base.model import Settings, TrainingJob
from models.cca.best import fit_best
from models.cca.network import CCA
from models.phrases.data import DRAWN, PhraseInputs, open_phrases, training_pairs
from models.phrases.validation import PhraseValidation
from pipeline.training.phases import Fitted
from pipeline.training.resume import ResumeFile

NETWORK = CCA


def prepare(settings: Settings, inputs: PhraseInputs, device: torch.device) -> TrainingJob:
    config, opened = settings.config, open_phrases(inputs)
    data = training_pairs(opened, inputs.truth, settings.seed)
    dim = min(config.dim, *opened.sizes.values(), len(data.pairs) - 1)
    sizes = opened.sizes | {"dim": dim}

    def judge(model: CCA) -> dict[str, Any]:
        validation = PhraseValidation(model, opened, torch.device("cpu"))
        return dict(validation.judged(validation(), ()).columns)

    def run(resume: ResumeFile) -> Fitted:
        blocks = np.split(data.pairs, range(4096, len(data.pairs), 4096))
        paired = (
            (data.regions(r).numpy(), data.phrases(p).numpy()) for r, p in (b.T for b in blocks)
        )
        return fit_best("phrase_cca", config, sizes, paired, len(data.pairs), judge)

    used = {"phrase_cca": config.model_dump() | DRAWN, "seed": settings.seed}
    return TrainingJob(run, sizes, used, opened.identity())
