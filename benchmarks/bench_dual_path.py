"""Training the dual path from pixels: what decoding and augmentation add to a step."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
import pandas as pd
import torch

from benchmarks.common import Row, new_folder, paired_ratio, photographs, size
from models.backbone.image_cnn import PixelRows
from models.backbone.network import classifier, cut
from models.backbone.preprocessing import preprocessing_of
from models.dual_path.batches import ImageBatch, ImageBatches
from models.dual_path.instance import InstanceLoss
from models.dual_path.network import DualPath
from models.dual_path.slots import SlotRows
from pipeline.inputs.batches import Split

IMAGES, BATCH, WORDS = size((192, 64, 150), (6, 2, 20))
SIDE, CROP = size((128, 112), (40, 32))
LAYERS = ["layer1", "layer2", "layer3"]  # of resnet18, as in params.yaml


def rows() -> Iterator[Row]:
    with new_folder() as folder:
        table = photographs(folder, (SIDE, SIDE), IMAGES)
        yield pixel_row(table, "JPEG files", budget=0, limit=1.2)
        yield pixel_row(table, "memory", budget=1 << 30, limit=1.05)
        yield stage_row(table)


def pixel_row(table: pd.DataFrame, where: str, budget: int, limit: float) -> Row:
    """An epoch of images from files, or kept in memory, against batches that are ready."""
    train = _Training()
    batches = batches_of(table, budget)
    ready = list(batches.epoch(0))

    def ours() -> None:
        train.epoch(batches.epoch(0))

    pair = paired_ratio(ours, lambda: train.epoch(ready), runs=3)
    work = f"stage II, resnet18 to layer3, {SIDE} px to {CROP}, batch {BATCH}, images from {where}"
    figure = pair.of(f"ready batches, an epoch of {batches.steps} steps")
    return Row(work, figure, f"<= {limit}x", pair.ratio, ours)


def stage_row(table: pd.DataFrame) -> Row:
    """Stage I on cached features against stage I that computes them from pixels."""
    train = _Training()
    train.model.trainable(["text", "words", "image_head"])
    ready = list(batches_of(table, budget=0).epoch(0))
    with torch.inference_mode():
        features = [train.model.image_features(batch.images).clone() for batch in ready]
    cached = [
        ImageBatch(images.clone(), batch.captions, batch.groups, batch.labels)
        for images, batch in zip(features, ready, strict=True)
    ]
    pair = paired_ratio(lambda: train.epoch(cached), lambda: train.epoch(ready), runs=3)
    work = f"stage I on cached features against pixels, text CNN resnet18 of width 32, {BATCH}"
    return Row(work, pair.faster("from pixels"), ">= 3x", 1 / pair.ratio)


def batches_of(table: pd.DataFrame, budget: int) -> ImageBatches:
    """Batches of images; so many bytes of them are kept after the first epoch."""
    ids = table["image_id"].tolist()
    rules = replace(preprocessing_of("resnet18", None, "center"), resize=SIDE, crop=CROP)
    pixels = PixelRows(table, ids, rules, workers=2, budget=budget)
    words = np.random.default_rng(0).integers(2, WORDS, (IMAGES, 12)).tolist()
    split = Split(ids, ids, ids, np.arange(IMAGES), pixels, SlotRows(words, 32))
    return ImageBatches(split, BATCH, 0)


class _Training:
    """A network with its classifier and optimiser, and epochs of it."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        backbone, width = cut(classifier("resnet18", 0), LAYERS, "mean_max", CROP)
        self.model = DualPath(width, WORDS, 100, "resnet18", 32, 256, 256, image_cnn=backbone)
        self.model.train()
        self.loss = InstanceLoss(IMAGES, 256)
        weights = [*self.model.parameters(), *self.loss.parameters()]
        self.optimiser = torch.optim.SGD(weights, 0.001, momentum=0.9)

    def epoch(self, batches: Iterable[ImageBatch]) -> None:
        for batch in batches:
            self.optimiser.zero_grad()
            vectors = self.model(batch.images, batch.captions)
            torch.stack(self.loss(*vectors, batch.labels)).sum().backward()
            self.optimiser.step()
