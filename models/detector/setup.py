"""From the detector section of params.yaml and a corpus to what a training needs but a network."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from models.detector.data import (
    DetectionBatches,
    LabelledImages,
    Labels,
    read_labelled_images,
    read_labels,
)
from models.detector.params import DetectorConfig
from models.detector.training import THRESHOLD, WEIGHT_DECAY
from pipeline.corpus.tables import images_digest, load_images
from pipeline.runtime.files import sha256_file

SIZES = ("channels", "hidden", "anchors", "ratios", "short_side", "long_side", "proposals")
# What decides a training beside params.yaml; all loss terms have the same weight.
FIXED = {"weight_decay": WEIGHT_DECAY, "attribute_weight": 1.0, "threshold": THRESHOLD}
NO_BOXES = Labels(("object",), ())  # of random weights on a corpus that names nothing


@dataclass(frozen=True)
class TrainingData:
    """Labels, images and recipe; `params` and `inputs` (digests) decide the result."""

    labels: Labels
    batches: DetectionBatches
    validation: LabelledImages
    params: dict[str, Any]
    inputs: dict[str, str]


def training_data(settings: DetectorConfig, seed: int, images: Path, boxes: Path) -> TrainingData:
    """What a detector is trained and validated on, and what decides the result.

    Args:
        settings: the section `detector`.
        seed: of params.yaml; decides the order of the images.
        images: the corpus's table of images.
        boxes: its table of boxes.

    Returns:
        The names, batches of the training split, the images of the validation split, and settings
        and digests for the detector's file.

    Raises:
        WorkbenchError: a corpus without boxes of training images, boxes that do not fit their
            images, or too few images for a batch of two.
    """
    labels = read_labels(images, boxes)
    training = settings.training
    data = read_labelled_images(images, boxes, split="train", labels=labels)
    return TrainingData(
        labels=labels,
        batches=DetectionBatches(
            data, training.batch_size, seed=seed, images_per_epoch=training.images_per_epoch
        ),
        validation=read_labelled_images(images, boxes, split="val", labels=labels),
        params={"detector": decisive(settings), "seed": seed},
        inputs={"images": images_digest(load_images(images)), "boxes": sha256_file(boxes)},
    )


def sizes_of(settings: DetectorConfig) -> dict[str, Any]:
    """The sizes among the settings, by their names in models.detector.fpn.FPNSizes."""
    sizes = {name: getattr(settings, name) for name in SIZES}
    return sizes | {"layers": len(settings.anchors)}


def decisive(settings: DetectorConfig) -> dict[str, Any]:
    """The settings that decide what the detector is, as JSON values: without paths."""
    kept = settings.model_dump(mode="json", exclude={"names"})
    kept |= {"layers": len(settings.anchors), "training": kept["training"] | FIXED}
    return kept | ({"weights": "file"} if settings.weights not in ("train", "random") else {})
