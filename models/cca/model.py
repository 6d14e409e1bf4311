"""Canonical correlation analysis as a model: its training is one fit, its scores are cosines."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import torch

from models.base.model import Settings, TrainingJob
from models.base.scoring import in_batches, score_vectors, split_scorer
from models.cca.fit import Canonical, fit_each
from models.cca.network import CCA
from pipeline.inputs.batches import Split
from pipeline.inputs.files import Inputs
from pipeline.inputs.sources import VectorInputs
from pipeline.runtime.process import say
from pipeline.training.curve import validation_columns
from pipeline.training.phases import Fitted
from pipeline.training.resume import ResumeFile

BLOCK = 4096  # pairs per block of the covariances


def prepare(settings: Settings, inputs: Inputs, device: torch.device) -> TrainingJob:
    """The fit of the canonical directions on the training pairs, on the CPU."""
    config = settings.config
    opened = VectorInputs(inputs)
    train, val = opened.split("train"), opened.split("val")
    pairs = len(train.caption_ids)
    dim = min(config.dim, *opened.sizes.values(), pairs - 1)
    sizes = opened.sizes | {"dim": dim}

    def model_of(fitted: Canonical) -> CCA:
        model = CCA(**sizes)
        image, sentence = fitted.image_mean, fitted.sentence_mean
        sides = (image, fitted.image_weights, sentence, fitted.sentence_weights)
        scales = fitted.correlations**config.power
        model.initialise(*map(torch.from_numpy, (*sides, scales)))
        images, captions = fitted.constant
        say(
            f"cca: {dim} directions (cca.dim = {config.dim}) from {pairs:,} pairs, correlations "
            f"{fitted.correlations[0]:.3f} to {fitted.correlations[-1]:.3f}; constant columns, "
            f"which get no weight: {images} of the images, {captions} of the sentences"
        )
        return model

    def run(resume: ResumeFile) -> Fitted:
        rows: list[dict[str, Any]] = []
        kept: tuple[float, int, CCA] | None = None
        fits = fit_each(paired(train), dim, config.tried, pairs)
        for number, (eta, fitted) in enumerate(zip(config.tried, fits, strict=True), 1):
            model = model_of(fitted)
            columns = validation_columns(score_vectors(model, val, torch.device("cpu")))
            rows.append({"epoch": number, "phase": "fit", "regularisation": eta} | columns)
            if len(config.tried) > 1:
                say(f"cca: validation rsum {columns['val_rsum']:.1f} with regularisation {eta:g}")
            if kept is None or columns["val_rsum"] > kept[0]:
                kept = columns["val_rsum"], number, model
        assert kept is not None  # there is one regularisation at least
        return Fitted(kept[2].state_dict(), kept[1], rows)

    return TrainingJob(run, sizes, {"cca": config.model_dump()}, opened.identity)


scorer = partial(split_scorer, VectorInputs, CCA)


def paired(split: Split) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Blocks of image features (B, Dx) and sentence vectors (B, Dy), a row per caption."""
    for rows in in_batches(len(split.caption_ids), BLOCK):
        images, captions = split.images(split.described[rows]), split.captions(rows)[0]
        yield images.numpy(), captions.numpy()
