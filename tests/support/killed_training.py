"""Trains a toy model in child processes that are killed at given points, and again to the end.

Run by test_loop.py as `python killed_training.py FOLDER`. Writes FOLDER/<point>, the outcome after
a kill at that point, and FOLDER/never, that of an undisturbed training.
"""

import random
import sys
from pathlib import Path

import numpy as np
import torch
from forked import ended, killed
from losses import pair_loss
from models.vse.network import VSE

from models.base.scoring import score_vectors
from pipeline.inputs.batches import PairBatches, Split
from pipeline.inputs.sources import TokenRows
from pipeline.storage.checkpoint import Description, write_checkpoint
from pipeline.training.curve import curve_tsv
from pipeline.training.loop import fit
from pipeline.training.phases import Phase, Schedule, Watched, optimiser
from pipeline.training.resume import ResumeFile

CPU = torch.device("cpu")
# An epoch has 5 steps, each followed by a publish, and one more at its end; those of the second
# phase have 4, and there are 6 of them.
POINTS = ["never", "step 1", "step 8", "step 28", "publish 3", "publish 6", "publish 34"]
POINTS += ["validation 2"]


def toy_split(count, seed):
    generator = np.random.default_rng(seed)
    shown = generator.random((count, 6)) < 0.5
    shown[:, 0] |= ~shown.any(axis=1)
    values = torch.from_numpy(shown.astype(np.float32))
    words = [np.flatnonzero(row) + 2 for row in shown for _ in range(2)]
    names = [f"{seed}-{i}" for i in range(count)]
    captions = [f"{name}#{i}" for name in names for i in range(2)]
    described = np.repeat(np.arange(count), 2)
    return Split(names, names, captions, described, lambda rows: values[rows], TokenRows(words))


def train(output, interval, killer):
    """Three phases of a loss that draws from every random generator; the second has batches and a
    learning rate of its own, trains a part of the model, and ends when it has converged."""
    torch.set_num_threads(1)
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002
    torch.manual_seed(0)
    model, validation = VSE(6, 8, 4, 5, 5), toy_split(6, 1)

    def objective_of(loss):
        def objective(model, batch):
            killer.event("step")
            images = torch.nn.functional.dropout(batch.images, 0.2)
            noise = 1 + 0.1 * random.random() + 0.1 * np.random.rand()  # noqa: NPY002
            found = noise * loss(model(images, batch.captions, batch.lengths), batch.groups)
            return Watched(found, {"image": images.mean()})

        return objective

    def score():
        killer.event("validation")
        return score_vectors(model, validation, CPU)

    def freeze(model):
        model.text.requires_grad_(False)

    killer.watch_files()
    objectives = [objective_of(pair_loss("sum_margin", margin)) for margin in (0.1, 0.2, 0.3)]
    own = {"batches": PairBatches(toy_split(10, 0), 5, seed=4)}
    fitted = fit(
        model,
        optimiser("adam", model.parameters(), 0.01),
        [
            Phase("first", 1, objectives[0]),
            Phase("second", 9, objectives[1], **own, prepare=freeze, lr=0.02, stop_below=1.0),
            Phase("third", 1, objectives[2], prepare=lambda model: model.text.requires_grad_(True)),
        ],
        PairBatches(toy_split(10, 0), 4, seed=3),
        score,
        Schedule(lr_step=2, lr_factor=0.5, clip=1.0, precision="fp32", patience=1),
        ResumeFile(output / "work", "toy", interval),
    )
    rsum = fitted.kept["val_rsum"]
    description = Description(
        model="toy", architecture={}, params={}, inputs={}, epoch=fitted.epoch, val_rsum=rsum
    )
    write_checkpoint(output / "weights", fitted.weights, description)
    (output / "curve").write_text(curve_tsv(fitted.history))


def main():
    for point in POINTS:
        output = Path(sys.argv[1]) / point
        output.mkdir()
        if point != "never":
            killed(point, train, output, 0.0)
            assert not (output / "weights").exists()
        ended(train, output, 1e6)


if __name__ == "__main__":
    main()
