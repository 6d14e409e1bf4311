"""The training of the detector: what it brings to the Trainer that all networks share.

A detector has several named loss terms, is judged by recall and average precision, and learns in
so few epochs that the learning rate must change with every step: a warmup, then a line to zero.
"""

from typing import Any

from models.detector.data import DetectionBatch, DetectionBatches, LabelledImages
from models.detector.metrics import detection_metrics
from models.detector.params import DetectorTrainingConfig
from pipeline.training.process_group import ProcessGroup
from pipeline.training.resume import ResumeFile
from pipeline.training.schedule import Row, WarmupSchedule, build_optimiser
from pipeline.training.trainer import Loss, Phase, Trainable, Trainer, Validation

WEIGHT_DECAY = 0.0001  # of AdamW
THRESHOLD = 0.2  # least score of an object that counts as found in validation
LAST_SHARE = 0.02  # of the learning rate, in the last step
NOT_FINITE = "lower detector.training.lr or set detector.training.clip to 2 or so"


class TrainedDetector(Trainable):
    """A detector as the Trainer sees it.

    Args:
        detector: Has `losses` and `regions` (models/detector/fpn.py).
        batch_size: Images that are validated at once.
    """

    def __init__(self, detector: Any, batch_size: int) -> None:
        super().__init__()
        self.detector = detector
        self.batch_size = batch_size

    def batch_loss(self, batch: DetectionBatch, phase: Phase, processes: ProcessGroup) -> Loss:
        """The named terms of the detector's loss.

        Args:
            batch: Images with their objects.
            phase: Not read: there is one.
            processes: Not read: a detector is trained by one process.

        Returns:
            The terms by name, each a scalar, all with the weight 1.
        """
        return Loss(self.detector.losses(batch.images, [vars(truth) for truth in batch.truths]))

    def validate(self, val: LabelledImages) -> Validation:
        """Recall, average precision and attributes; the last epoch's weights are kept."""
        figures = validate(self.detector, val, self.batch_size)
        shown = ", ".join(f"{name} {value:.3f}" for name, value in figures.items())
        columns = {f"val_{name}": value for name, value in figures.items()}
        return Validation(columns, shown or "not validated")


def fit_detector(
    model: Any,
    batches: DetectionBatches,
    validation: LabelledImages,
    training: DetectorTrainingConfig,
    resume: ResumeFile,
) -> list[Row]:
    """Train a detector.

    Args:
        model: On its device; left in evaluation mode with the weights of the last epoch.
        batches: The sampler.
        validation: Images with their objects, perhaps none.
        training: The section detector.training of params.yaml.
        resume: Where an interrupted training keeps its state.

    Returns:
        A row per epoch: mean loss terms, validation, learning rate.

    Raises:
        WorkbenchError: The loss is not finite.
    """
    trainer = Trainer(
        schedule=WarmupSchedule(training.warmup, LAST_SHARE, training.clip, precision="fp32"),
        build_optimiser=lambda weights: build_optimiser(
            "adamw", weights, training.lr, weight_decay=WEIGHT_DECAY, spare=False
        ),
        resume=resume,
        processes=ProcessGroup(),
        not_finite=NOT_FINITE,
    )
    phase = Phase("detector", training.epochs, batches=batches, val=validation)
    result = trainer.fit(TrainedDetector(model, batches.size), [phase])
    model.eval()
    return [{name: row[name] for name in row if name != "phase"} for row in result.history]


def validate(model: Any, data: LabelledImages, batch_size: int) -> dict[str, float]:
    """Recall, average precision and attributes on labelled images (models/detector/metrics.py).

    Args:
        model: A detector; left in evaluation mode.
        data: N images with their objects.
        batch_size: Images that go through it at once.

    Returns:
        The figures by name; none without images.
    """
    if not len(data):
        return {}
    model.eval()
    device = next(model.parameters()).device
    outputs: list[Any] = []
    for start in range(0, len(data), batch_size):
        batch = data.batch(range(start, min(start + batch_size, len(data)))).to(device)
        outputs += [type(one)(*(part.cpu() for part in one)) for one in model.regions(batch.images)]
    return detection_metrics(outputs, data.truths, THRESHOLD)
