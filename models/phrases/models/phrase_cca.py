"""Canonical correlation analysis of regions and phrases, the baseline (Plummer et al. 2015)."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from models.base.model import Settings, TrainingJob
from models.cca.best import fit_job
from models.cca.network import CCA
from models.phrases.data import DRAWN, PhraseInputs, open_phrases, training_pairs
from models.phrases.validation import PhraseValidation

NETWORK = CCA


def prepare(settings: Settings, inputs: PhraseInputs, device: torch.device) -> TrainingJob:
    config, opened = settings.config, open_phrases(inputs)
    data = training_pairs(opened, inputs.truth, settings.seed)

    def judge(model: CCA) -> dict[str, Any]:
        validation = PhraseValidation(model, opened, torch.device("cpu"))
        return dict(validation.judged(validation(), ()).columns)

    def paired() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for block in np.split(data.pairs, range(4096, len(data.pairs), 4096)):
            yield data.regions(block[:, 0]).numpy(), data.phrases(block[:, 1]).numpy()

    used = {"phrase_cca": config.model_dump() | DRAWN, "seed": settings.seed}
    return fit_job("phrase_cca", config, opened, paired, len(data.pairs), judge, used)
