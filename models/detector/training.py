"""The training of the detector: what it brings to the loop that all models share.

A detector has several named loss terms, is judged by recall and average precision, and learns in
so few epochs that the learning rate must change with every step: a warmup, then a line to zero.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from models.detector.data import DetectionBatch, DetectionBatches, LabelledImages
from models.detector.metrics import detection_metrics
from models.detector.params import DetectorTrainingConfig
from pipeline.training.loop import fit
from pipeline.training.phases import EpochVerdict, Phase, Row, WarmupSchedule, optimiser
from pipeline.training.resume import ResumeFile

WEIGHT_DECAY = 0.0001  # of AdamW
THRESHOLD = 0.2  # least score of an object that counts as found in validation
LAST_SHARE = 0.02  # of the learning rate, in the last step
NOT_FINITE = "lower detector.training.lr or set detector.training.clip to 2 or so"


def fit_detector(
    model: Any,
    batches: DetectionBatches,
    validation: LabelledImages,
    training: DetectorTrainingConfig,
    resume: ResumeFile,
) -> list[Row]:
    """Train a detector; returns one row per epoch: mean loss terms, validation, learning rate.

    The model is left in evaluation mode with the weights of the last epoch. WorkbenchError where
    the loss is not finite.
    """

    def loss_terms(model: Any, batch: DetectionBatch) -> dict[str, Tensor]:  # scalars by name
        return model.losses(batch.images, [vars(truth) for truth in batch.truths])

    fitted = fit(
        model,
        optimiser("adamw", model.parameters(), training.lr, weight_decay=WEIGHT_DECAY, spare=False),
        [Phase("detector", training.epochs, loss_terms)],
        batches,
        lambda: validate(model, validation, batches.size),
        WarmupSchedule(training.warmup, LAST_SHARE, training.clip, "fp32"),
        resume,
        judge=judge_detections,
        not_finite=NOT_FINITE,
    )
    model.eval()
    return [{name: row[name] for name in row if name != "phase"} for row in fitted.history]


def judge_detections(figures: Mapping[str, float], history: Sequence[Row]) -> EpochVerdict:
    """The figures of `validate` as columns; the last epoch's weights are kept."""
    shown = ", ".join(f"{name} {value:.3f}" for name, value in figures.items())
    columns = {f"val_{name}": value for name, value in figures.items()}
    return EpochVerdict(columns, shown or "not validated")


def validate(model: Any, data: LabelledImages, batch_size: int) -> dict[str, float]:
    """Recall, average precision and attributes (models.detector.metrics) on labelled images, none
    without images. The model is left in evaluation mode."""
    if not len(data):
        return {}
    model.eval()
    device = next(model.parameters()).device
    outputs: list[Any] = []
    for start in range(0, len(data), batch_size):
        batch = data.batch(range(start, min(start + batch_size, len(data)))).to(device)
        outputs += [type(one)(*(part.cpu() for part in one)) for one in model.regions(batch.images)]
    return detection_metrics(outputs, data.truths, THRESHOLD)
