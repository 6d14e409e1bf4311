"""Fit canonical correlation analysis to the training pairs: the linear baseline."""

from collections.abc import Iterator
from pathlib import Path

import click
import numpy as np
import torch

from models.cca import CCA
from pipeline.batches import Split
from pipeline.cca import fit_cca
from pipeline.checkpoint import Description, write_checkpoint
from pipeline.curves import validation_columns
from pipeline.params import load_params
from pipeline.runtime import say, seed_everything, set_threads
from pipeline.scoring import in_batches, score_vectors
from stages.common import command, model_inputs, target
from stages.systems import Inputs
from stages.systems.vectors import identity, open_inputs, splits

BLOCK = 4096  # pairs per block of the covariances


@command
@model_inputs
@click.option("--output", type=target, required=True, help="Checkpoint to write, .safetensors.")
def main(output: Path, **paths: Path) -> None:
    """Fit the canonical directions of image and sentence vectors on the training pairs."""
    params, inputs = load_params(), Inputs(**paths)
    settings = params.cca
    set_threads(params.runtime.threads)
    seed_everything(0)  # nothing is drawn, but kernels must be the repeatable ones
    features, sentences = open_inputs(inputs)
    train, val = map(splits(inputs, features, sentences), ("train", "val"))
    pairs = len(train.caption_ids)
    sizes = {"image_dim": features.shape()[1], "sentence_dim": sentences.shape()[1]}
    dim = min(settings.dim, *sizes.values(), pairs - 1)
    fitted = fit_cca(paired(train), dim, settings.regularisation, pairs)
    sizes |= {"dim": dim}
    model = CCA(**sizes)
    sides = (fitted.image_mean, fitted.image_weights, fitted.sentence_mean, fitted.sentence_weights)
    scales = fitted.correlations**settings.power
    model.initialise(*map(torch.from_numpy, (*sides, scales)))
    rsum = validation_columns(score_vectors(model, val, torch.device("cpu")))["val_rsum"]
    description = Description(
        model="cca",
        architecture=sizes,
        params={"cca": settings.model_dump()},
        inputs=identity(features, sentences),
        epoch=1,
        val_rsum=rsum,
    )
    write_checkpoint(output, model.state_dict(), description)
    image, sentence = fitted.constant
    say(
        f"cca: {dim} directions (cca.dim = {settings.dim}) from {pairs:,} pairs, correlations "
        f"{fitted.correlations[0]:.3f} to {fitted.correlations[-1]:.3f}; constant columns, which "
        f"get no weight: {image} of the images, {sentence} of the sentences; "
        f"validation rsum {rsum:.1f}"
    )


def paired(split: Split) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Blocks of image features (B, Dx) and sentence vectors (B, Dy), a row per caption."""
    for rows in in_batches(len(split.caption_ids), BLOCK):
        images, captions = split.images(split.described[rows]), split.captions(rows)[0]
        yield images.numpy(), captions.numpy()


if __name__ == "__main__":
    main()
