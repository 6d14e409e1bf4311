"""Trains a toy model in child processes that are killed at given points, and again to the end.

Run by test_trainer.py as `python killed_training.py FOLDER`. Writes FOLDER/<point>, the outcome
after a kill at that point, and FOLDER/never, that of an undisturbed training.
"""

import random
import sys
from pathlib import Path

import numpy as np
import torch
from forked import ended, killed
from losses import pair_loss

from models.vse import VSE, VSEConfig
from pipeline.features.checkpoint import Description, write_checkpoint
from pipeline.features.data import WordRows
from pipeline.features.split import PairBatches, Split
from pipeline.training.curve import curve_tsv, validate_retrieval
from pipeline.training.process_group import ProcessGroup
from pipeline.training.resume import ResumeFile
from pipeline.training.schedule import Schedule, build_optimiser
from pipeline.training.trainer import Loss, Phase, Trainable, Trainer

# An epoch has 5 steps, each followed by a publish, and one more at its end; those of the second
# phase have 4, and there are 6 of them.
POINTS = ["never", "step 1", "step 8", "step 28", "publish 3", "publish 6", "publish 34"]
POINTS += ["validation 2", "begin 1", "step 31"]


def toy_model():
    """A network of vectors of six features and eight words."""
    return VSE(VSEConfig(word_dim=4, hidden=5, dim=5), image_dim=6, vocabulary_size=8)


def scores_of_batch(model, batch):
    """(B, B) cosines of a batch."""
    return model.score(model.embed_images(batch.images), model.embed_captions(batch.captions))


def toy_split(count, seed):
    generator = np.random.default_rng(seed)
    shown = generator.random((count, 6)) < 0.5
    shown[:, 0] |= ~shown.any(axis=1)
    values = torch.from_numpy(shown.astype(np.float32))
    words = [np.flatnonzero(row) + 2 for row in shown for _ in range(2)]
    names = [f"{seed}-{i}" for i in range(count)]
    captions = [f"{name}#{i}" for name in names for i in range(2)]
    described = np.repeat(np.arange(count), 2)

    def images_of(rows, generator=None):
        return values[rows]

    return Split(names, names, captions, described, images_of, WordRows(words))


class Toy(Trainable):
    """Three phases of a loss that draws from every random generator; the second trains a part of
    the model, the third begins from the best weights, with a factor that is found with them."""

    def __init__(self, killer):
        super().__init__()
        self.model = toy_model()
        self.killer = killer
        self.factor = 1.0

    def enter(self, phase):
        self.model.text.requires_grad_(phase.name != "second")

    def batch_loss(self, batch, phase, processes):
        self.killer.event("step")
        images = torch.nn.functional.dropout(batch.images, 0.2)
        noise = 1 + 0.1 * random.random() + 0.1 * np.random.rand()  # noqa: NPY002
        left = self.model.embed_images(images)
        scores = self.model.score(left, self.model.embed_captions(batch.captions))
        found = self.factor * noise * phase.ranking(scores, batch.image_groups)
        return Loss({"": found}, {"image": images.mean()})

    def validate(self, val):
        self.killer.event("validation")
        return validate_retrieval(self.model.score_split(val))

    def find_factor(self):
        self.killer.event("begin")
        self.factor = 1 + float(self.model.image_projection.weight.detach().abs().mean())


def train(output, interval, killer):
    torch.set_num_threads(1)
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002
    torch.manual_seed(0)
    network, validation = Toy(killer), toy_split(6, 1)
    killer.watch_files()
    losses = [pair_loss("sum_margin", margin) for margin in (0.1, 0.2, 0.3)]
    batches = PairBatches(toy_split(10, 0), 4, seed=3)
    own = PairBatches(toy_split(10, 0), 5, seed=4)
    phases = [
        Phase("first", 1, batches, validation, losses[0]),
        Phase("second", 9, own, validation, losses[1], lr=0.02, stop_below=1.0),
        Phase(
            "third", 2, batches, validation, losses[2], from_best=True, begin=network.find_factor
        ),
    ]
    trainer = Trainer(
        Schedule(lr_step=2, lr_factor=0.5, clip=1.0, precision="fp32", patience=1),
        lambda weights: build_optimiser("adam", weights, 0.01),
        ResumeFile(output / "work", "toy", interval),
        ProcessGroup(),
    )
    result = trainer.fit(network, phases)
    rsum = result.kept["val_rsum"]
    description = Description(
        model="toy", architecture={}, params={}, inputs={}, epoch=result.epoch, val_rsum=rsum
    )
    write_checkpoint(output / "weights", network.state_dict(), description)
    (output / "curve").write_text(curve_tsv(result.history))


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
