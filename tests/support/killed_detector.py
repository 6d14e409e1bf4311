"""Trains a tiny detector in child processes that are killed at given points, and again to the end.

Run by test_training.py as `python killed_detector.py FOLDER`. Writes FOLDER/<point>.safetensors and
FOLDER/<point>.tsv.
"""

import sys
from pathlib import Path

import numpy as np
import torch
from forked import ended, killed

from models.detector.data import DetectionBatches, LabelledImages
from models.detector.file import describe, write_detector
from models.detector.fpn import build_detector
from models.detector.metrics import GroundTruth
from models.detector.params import DetectorTrainingConfig
from models.detector.training import fit_detector
from pipeline.training.curve import curve_tsv
from pipeline.training.resume import ResumeFile

POINTS = ["never", "step 1", "step 4", "validation 1"]  # 3 steps an epoch, 2 epochs
TRAINING = DetectorTrainingConfig(epochs=2, lr=0.002, warmup=2, clip=10.0)
SIZES = {"channels": 8, "hidden": 8, "layers": 2, "anchors": [[12.0], [20.0]], "proposals": 10}


class Squares(LabelledImages):
    """Images of 32 x 32 with one red or blue square each, in memory."""

    def __init__(self, count, seed):
        generator = np.random.default_rng(seed)
        truths, self.pictures = [], []
        for _ in range(count):
            x, y = generator.integers(0, 18, 2)
            blue = generator.integers(2)
            picture = torch.full((3, 32, 32), 200, dtype=torch.uint8)
            picture[:, y : y + 14, x : x + 14] = torch.tensor([[[250]], [[0]], [[0]]]).roll(blue, 0)
            self.pictures.append(picture)
            box = torch.tensor([[x, y, x + 14, y + 14]], dtype=torch.float32)
            shades = torch.tensor([[1 - blue, blue]], dtype=torch.float32)
            truths.append(GroundTruth(box, torch.tensor([1]), shades))
        super().__init__([""] * count, np.zeros((count, 2)), truths)

    def image(self, row):
        return self.pictures[row]


def train(output, killer):
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = build_detector("fpn_resnet18", ["square"], ["red", "blue"], **SIZES)
    losses, regions = model.losses, model.regions
    model.losses = lambda *values: (killer.event("step"), losses(*values))[1]
    model.regions = lambda *values: (killer.event("validation"), regions(*values))[1]
    batches = DetectionBatches(Squares(12, 0), 4, seed=1)
    resume = ResumeFile(output, "tiny", interval=0.0)
    history = fit_detector(model, batches, Squares(4, 1), TRAINING, resume)
    description = describe(model, "trained", {}, {}, {})
    write_detector(output.with_suffix(".safetensors"), model, description)
    output.with_suffix(".tsv").write_text(curve_tsv(history))


def main():
    for point in POINTS:
        output = Path(sys.argv[1]) / point
        if point != "never":
            killed(point, train, output)
        ended(train, output)


if __name__ == "__main__":
    main()
