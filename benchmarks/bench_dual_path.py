"""Training the dual path from pixels: what decoding and augmentation add to a step."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from benchmarks.common import Row, new_folder, paired_ratio, photographs, size
from models.backbone.image_cnn import PixelRows
from models.backbone.network import classifier, cut
from models.backbone.preprocessing import preprocessing_of
from models.dual_path.instance import InstanceLoss
from models.dual_path.model import BUT_THE_CNN, DualPath, DualPathConfig, ImageBatches
from models.dual_path.text import SlotRows
from pipeline.features.split import Batch, Split

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
    """An epoch of images from files, or kept in memory, against batches that are ready.

    Args:
        table: Of the images.
        where: What images come from, as the row says it.
        budget: Bytes of decoded images that are kept.
        limit: The largest ratio that reaches the target.

    Returns:
        The row, whose ratio is the time of an epoch to that on ready batches.
    """
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
    train.model.train_parts(BUT_THE_CNN)
    ready = list(batches_of(table, budget=0).epoch(0))
    with torch.inference_mode():
        features = [train.model.image_features(pixels_of(batch)) for batch in ready]
    pairs = zip(features, ready, strict=True)
    cached = [replace(batch, images=images.clone()) for images, batch in pairs]
    pair = paired_ratio(lambda: train.epoch(cached), lambda: train.epoch(ready), runs=3)
    work = f"stage I on cached features against pixels, text CNN resnet18 of width 32, {BATCH}"
    return Row(work, pair.faster("from pixels"), ">= 3x", 1 / pair.ratio)


def batches_of(table: pd.DataFrame, budget: int) -> ImageBatches:
    """Batches of images.

    Args:
        table: Of the images.
        budget: Bytes of decoded images that are kept after the first epoch.

    Returns:
        BATCH images each, with captions of drawn words.
    """
    ids = table["image_id"].tolist()
    rules = replace(preprocessing_of("resnet18", None, "center"), resize=SIDE, crop=CROP)
    pixels = PixelRows(table, ids, rules, workers=2, budget=budget)
    words = np.random.default_rng(0).integers(2, WORDS, (IMAGES, 12)).tolist()
    split = Split(
        image_ids=ids,
        image_groups=ids,
        caption_ids=ids,
        described=np.arange(IMAGES),
        images=pixels,
        captions=SlotRows(words, 32),
    )
    return ImageBatches(split, BATCH, 0, split.groups)


def pixels_of(batch: Batch) -> Tensor:
    """The images of a batch, (B, 3, S, S) uint8."""
    assert isinstance(batch.images, Tensor)
    return batch.images


class _Training:
    """A network with its classifier and optimiser, and epochs of it."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        _, width = cut(classifier("resnet18"), LAYERS, "mean_max", CROP)
        settings = DualPathConfig(dropout=0.75, text_pool="max")
        self.model = DualPath(
            settings,
            vocabulary_size=WORDS,
            image_model="resnet18",
            image_layers=",".join(LAYERS),
            image_pool="mean_max",
            image_resize=SIDE,
            image_crop=CROP,
            image_dim=width,
        )
        self.model.train()
        self.loss = InstanceLoss(IMAGES, settings.dim)
        weights = [*self.model.parameters(), *self.loss.parameters()]
        self.optimiser = torch.optim.SGD(weights, 0.001, momentum=0.9)

    def epoch(self, batches: Iterable[Batch]) -> None:
        """A step on each of these batches."""
        for batch in batches:
            self.optimiser.zero_grad()
            assert isinstance(batch.images, Tensor)
            assert isinstance(batch.captions, Tensor)
            images = self.model.embed_images(batch.images)
            captions = self.model.embed_captions(batch.captions)
            torch.stack(self.loss(images, captions, batch.labels)).sum().backward()
            self.optimiser.step()
