"""The training of the detector: what it brings to the loop that all models share.

A detector has several named loss terms, is judged by recall and average precision, and learns in
so few epochs that the learning rate must change with every step: a warmup, then a line to zero.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import Tensor

from models.detector.data import DetectionBatch, DetectionBatches, LabelledImages
from models.detector.metrics import detection_metrics
from pipeline.training.loop import fit
from pipeline.training.phases import EpochVerdict, Phase, Row, WarmupSchedule, optimiser
from pipeline.training.resume import ResumeFile

LAST_SHARE = 0.02  # of the learning rate, in the last step
NOT_FINITE = "lower detector.training.lr or set detector.training.clip to 2 or so"


@dataclass(frozen=True)
class DetectorRecipe:
    """How the detector is trained.

    Attributes:
        epochs: passes over the training batches.
        lr: the largest learning rate of AdamW.
        warmup: steps until it is reached.
        weight_decay: of AdamW.
        clip: largest gradient norm, 0 for none.
        attribute_weight: of the attribute term, all others have 1.
        threshold: least score of an object that counts as found.
    """

    epochs: int
    lr: float
    warmup: int
    weight_decay: float
    clip: float
    attribute_weight: float
    threshold: float


def fit_detector(
    model: Any,
    batches: DetectionBatches,
    validation: LabelledImages,
    recipe: DetectorRecipe,
    resume: ResumeFile,
) -> list[Row]:
    """Train a detector; returns one row per epoch: mean loss terms, validation, learning rate.

    The model is left in evaluation mode with the weights of the last epoch: with a learning rate
    that falls to zero it is the best one. Killed at any moment, a training continues from its last
    written state and ends with the same bytes.

    Args:
        model: on its device, initialised from a seed.
        batches: of the training split.
        validation: judged after every epoch; rows have shares from 0 to 1.
        recipe: how it is trained.
        resume: where the state is kept (and looked for).

    Raises:
        WorkbenchError: the loss is not finite.
    """
    objective = partial(loss_terms, attribute_weight=recipe.attribute_weight)
    fitted = fit(
        model,
        optimiser("adamw", model.parameters(), recipe.lr, weight_decay=recipe.weight_decay),
        [Phase("detector", recipe.epochs, objective)],
        batches,
        lambda: validate(model, validation, batches.size, recipe.threshold),
        WarmupSchedule(recipe.warmup, LAST_SHARE, recipe.clip, "fp32"),
        resume,
        judge=judge_detections,
        not_finite=NOT_FINITE,
    )
    model.eval()
    return [{name: row[name] for name in row if name != "phase"} for row in fitted.history]


def loss_terms(model: Any, batch: DetectionBatch, attribute_weight: float) -> dict[str, Tensor]:
    """The weighted loss terms of a batch by name.

    Args:
        model: has `losses`, with its terms by name.
        batch: on the model's device.
        attribute_weight: of the term `attributes`, all others have 1.
    """
    terms: dict[str, Tensor] = model.losses(batch.images, [vars(truth) for truth in batch.truths])
    weights = {"attributes": attribute_weight}
    return {name: weights.get(name, 1.0) * term for name, term in terms.items()}


def judge_detections(figures: Mapping[str, float], history: Sequence[Row]) -> EpochVerdict:
    """The figures of `validate` as columns; the last epoch's weights are kept."""
    shown = ", ".join(f"{name} {value:.3f}" for name, value in figures.items())
    columns = {f"val_{name}": value for name, value in figures.items()}
    return EpochVerdict(columns, shown or "not validated")


def validate(model: Any, data: LabelledImages, size: int, threshold: float) -> dict[str, float]:
    """Recall, average precision and attributes (models.detector.metrics) on labelled images.

    Args:
        model: on its device; left in evaluation mode.
        data: the images; none give no figures, an empty dict.
        size: images per batch.
        threshold: least score of an object that counts as found.
    """
    if not len(data):
        return {}
    model.eval()
    device = next(model.parameters()).device
    outputs: list[Any] = []
    for start in range(0, len(data), size):
        batch = data.batch(range(start, min(start + size, len(data)))).to(device)
        outputs += [type(one)(*(part.cpu() for part in one)) for one in model.regions(batch.images)]
    return detection_metrics(outputs, data.truths, threshold)
