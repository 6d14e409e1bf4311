"""From the detector section of params.yaml and a corpus to what a training needs but a network."""

from collections.abc import Mapping
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
from models.detector.training import DetectorRecipe
from pipeline.corpus.tables import images_digest, load_boxes, load_images
from pipeline.runtime.files import sha256_file

SIZES = (
    "channels",
    "hidden",
    "anchors",
    "ratios",
    "short_side",
    "long_side",
    "proposals",
)
# What no key of params.yaml varies: AdamW's weight decay, the weight of the attribute term, and the
# least score of an object that counts as found in validation.
FIXED: dict[str, Any] = {"weight_decay": 0.0001, "attribute_weight": 1.0, "threshold": 0.2}
NO_BOXES = Labels(("object",), ())  # of random weights on a corpus that names nothing


@dataclass(frozen=True)
class TrainingData:
    """Labels, images and recipe.

    Attributes:
        labels: names of classes and attributes.
        batches: of the training split.
        validation: images of its split.
        recipe: how it is trained.
        params: what decides the result, for the file.
        inputs: likewise, digests.
    """

    labels: Labels
    batches: DetectionBatches
    validation: LabelledImages
    recipe: DetectorRecipe
    params: dict[str, Any]
    inputs: dict[str, str]


def training_data(settings: DetectorConfig, seed: int, images: Path, boxes: Path) -> TrainingData:
    """What a detector is trained on and how.

    That the architecture can be trained here is checked with the parameters, stages.params.

    Args:
        settings: the section `detector`.
        seed: of the order of the images.
        images: table of the corpus.
        boxes: table of the corpus.

    Raises:
        WorkbenchError: a corpus without boxes.
    """
    labels, training = read_labels(images, boxes), settings.training
    data = read_labelled_images(images, boxes, "train", labels)
    recipe = training.model_dump(exclude={"batch_size", "images_per_epoch", "sampled"})
    return TrainingData(
        labels,
        DetectionBatches(data, training.batch_size, seed, training.images_per_epoch),
        read_labelled_images(images, boxes, "val", labels),
        DetectorRecipe(**recipe, **FIXED),
        {"detector": decisive(settings), "seed": seed},
        {"images": images_digest(load_images(images)), "boxes": sha256_file(boxes)},
    )


def corpus_labels(images: Path, boxes: Path) -> Labels:
    """The names that the corpus's boxes have, or a single object where it has no boxes."""
    return NO_BOXES if load_boxes(boxes).empty else read_labels(images, boxes)


def sizes_of(settings: DetectorConfig) -> dict[str, Any]:
    """The sizes among the settings, by their names in models.detector.pyramid.FPNSizes."""
    sizes = {name: getattr(settings, name) for name in SIZES}
    return sizes | {"layers": len(settings.anchors)}


def decisive(settings: DetectorConfig) -> dict[str, Any]:
    """The settings that decide what the detector is, as JSON values: without paths."""
    kept = settings.model_dump(mode="json", exclude={"names"})
    kept |= {"layers": len(settings.anchors), "training": kept["training"] | FIXED}
    return kept | ({"weights": "file"} if settings.weights not in ("train", "random") else {})


def judged(last: Mapping[str, Any]) -> dict[str, float]:
    """The figures of validation in the row of an epoch."""
    return {k.removeprefix("val_"): v for k, v in last.items() if k.startswith("val_")}
