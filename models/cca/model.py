"""Canonical correlation analysis as a model: its training is one fit, its scores are cosines."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import torch

from models.base.model import Settings, TrainingJob
from models.base.scoring import in_batches, score_vectors, split_scorer
from models.cca.best import fit_job
from models.cca.network import CCA
from pipeline.inputs.batches import Split
from pipeline.inputs.files import Inputs
from pipeline.inputs.sources import VectorInputs
from pipeline.training.curve import validation_columns

BLOCK = 4096  # pairs per block of the covariances


def prepare(settings: Settings, inputs: Inputs, device: torch.device) -> TrainingJob:
    """The fit of the canonical directions on the training pairs, on the CPU."""
    config = settings.config
    opened = VectorInputs(inputs)
    train, val = opened.split("train"), opened.split("val")

    def judge(model: CCA) -> dict[str, Any]:
        return validation_columns(score_vectors(model, val, torch.device("cpu")))

    pairs, used = len(train.caption_ids), {"cca": config.model_dump()}
    return fit_job("cca", config, opened, partial(paired, train), pairs, judge, used)


scorer = partial(split_scorer, VectorInputs, CCA)


def paired(split: Split) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Blocks of image features (B, Dx) and sentence vectors (B, Dy), a row per caption."""
    for rows in in_batches(len(split.caption_ids), BLOCK):
        images, captions = split.images(split.described[rows]), split.captions(rows)[0]
        yield images.numpy(), captions.numpy()
