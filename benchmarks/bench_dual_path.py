"""Training the dual path from pixels: what decoding and augmentation add to a step."""

import tempfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from benchmarks.common import Row, paired_ratio, photographs, where_time_goes
from models.backbone.network import classifier, cut
from models.backbone.pixels import PixelRows, pixel_preprocessing
from models.dual_path.batches import ImageBatch, ImageBatches
from models.dual_path.instance import InstanceLoss
from models.dual_path.network import DualPath
from models.dual_path.slots import SlotRows
from pipeline.inputs.batches import Split

IMAGES, BATCH, WORDS = 192, 64, 150
LAYERS = ["layer1", "layer2", "layer3"]  # of resnet18, as in params.yaml


def rows() -> list[Row]:
    """The first epoch of stage II, a later one, and stage I beside stage II."""
    with tempfile.TemporaryDirectory() as name:
        table = photographs(Path(name), (128, 128), IMAGES)
        return [pixel_row(table, kept=False), pixel_row(table, kept=True), stage_row(table)]


def pixel_row(table: pd.DataFrame, kept: bool) -> Row:
    """An epoch from files, or from images kept in memory, against batches that are ready."""
    train = _Training(table)
    batches = train.batches(kept)
    ready = list(batches.epoch(0))

    def ours() -> None:
        train.epoch(batches.epoch(0))

    pair = paired_ratio(ours, lambda: train.epoch(ready), runs=3)
    where = "memory" if kept else "JPEG files"
    work = f"stage II, resnet18 to layer3, 128 px to 112, batch {BATCH}, images from {where}"
    figure = pair.of(f"ready batches, an epoch of {batches.steps} steps")
    target = 1.05 if kept else 1.2
    profile = where_time_goes(ours) if pair.ratio > target else ""  # while there are files
    return Row(work, figure, f"<= {target}x", pair.ratio <= target, profile=profile)


def stage_row(table: pd.DataFrame) -> Row:
    """Stage I on cached features against stage I that computes them from pixels."""
    train = _Training(table)
    train.model.trainable(["text", "words", "image_head"])
    ready = list(train.batches(kept=True).epoch(0))
    with torch.inference_mode():
        features = [train.model.image_features(batch.images).clone() for batch in ready]
    cached = [
        ImageBatch(images.clone(), batch.captions, batch.groups, batch.labels)
        for images, batch in zip(features, ready, strict=True)
    ]
    pair = paired_ratio(lambda: train.epoch(cached), lambda: train.epoch(ready), runs=3)
    work = f"stage I on cached features against pixels, text CNN resnet18 of width 32, {BATCH}"
    return pair.at_least(work, 3, "from pixels")


class _Training:
    """A network with its classifier and optimiser, and epochs of it."""

    def __init__(self, table: pd.DataFrame) -> None:
        torch.manual_seed(0)
        backbone, width = cut(classifier("resnet18", 0), LAYERS, "mean_max", 112)
        self.model = DualPath(width, WORDS, 100, "resnet18", 32, 256, 256, image_cnn=backbone)
        self.model.train()
        self.loss = InstanceLoss(IMAGES, 256)
        weights = [*self.model.parameters(), *self.loss.parameters()]
        self.optimiser = torch.optim.SGD(weights, 0.001, momentum=0.9)
        self.table = table

    def batches(self, kept: bool) -> ImageBatches:
        """Batches from files that are decoded in every epoch, or only in the first."""
        ids = self.table["image_id"].tolist()
        rules = pixel_preprocessing("resnet18", 128, 112)
        pixels = PixelRows(self.table, ids, rules, workers=2, budget=1 << 30 if kept else 0)
        rng = np.random.default_rng(0)
        captions = SlotRows(rng.integers(2, WORDS, (IMAGES, 12)).tolist(), 32)
        return ImageBatches(Split(ids, ids, ids, np.arange(IMAGES), pixels, captions), BATCH, 0)

    def epoch(self, batches: Iterable[ImageBatch]) -> None:
        """One step per batch."""
        for batch in batches:
            self.optimiser.zero_grad()
            vectors = self.model(batch.images, batch.captions)
            torch.stack(self.loss(*vectors, batch.labels)).sum().backward()
            self.optimiser.step()
