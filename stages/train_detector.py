"""The detector of regions: trained on the corpus's boxes, or made from weights."""

from pathlib import Path
from typing import Any

import torch

from models.detector.data import read_labels
from models.detector.file import describe, write_detector
from models.detector.initial import detector_of_file, random_detector
from models.detector.setup import NO_BOXES, decisive, training_data
from models.detector.training import fit_detector
from pipeline.corpus.tables import load_boxes
from pipeline.runtime.code import code_digest
from pipeline.runtime.edits import EDITS
from pipeline.runtime.files import fingerprint, write_text
from pipeline.runtime.kernels import loaded_kernels
from pipeline.runtime.process import say
from pipeline.runtime.repeatable import setup_runtime
from pipeline.training.curve import curve_tsv
from pipeline.training.resume import ResumeFile
from stages.common import WORK, command, paths
from stages.params import CommonParams, load_params


@command
@paths("images", "boxes", exist=True)
@paths("output", "curve")
def main(images: Path, boxes: Path, output: Path, curve: Path) -> None:
    """Train the detector, or take one from a file, and write it with its names."""
    params = load_params()
    settings = params.detector
    device = setup_runtime(params.runtime, params.seed)
    if settings.weights == "train":
        train(params, device, images=images, boxes=boxes, output=output, curve=curve)
        return
    if settings.weights == "random":
        labels = NO_BOXES if load_boxes(boxes).empty else read_labels(images, boxes)
        # the same for every seed: runs with other seeds share the features of a pretrained network
        network: Any = random_detector(settings, labels).eval()
        description = describe(
            network, "random", params={"detector": decisive(settings)}, inputs={}, validation={}
        )
    else:
        network, description = detector_of_file(settings)
    write_text(curve, curve_tsv([{"epoch": 0, "weights": description.origin}]))
    write_detector(output, network, description)
    names = f"{len(network.object_names)} objects, {len(network.attribute_names)} attributes"
    say(f"detector: {description.architecture}, {description.origin} weights, {names}")


def train(
    params: CommonParams, device: torch.device, images: Path, boxes: Path, output: Path, curve: Path
) -> None:
    """Train, and write detector and curve; a killed run continues where it stopped.

    Args:
        params: the section `detector`, the seed, and how the process runs.
        device: where it is trained.
        images: the corpus's table of images.
        boxes: its table of boxes.
        output: the detector's file, written last.
        curve: a table with a row per epoch.

    Raises:
        WorkbenchError: a corpus that no detector can be trained on, or a loss that is not finite.
    """
    data = training_data(params.detector, params.seed, images=images, boxes=boxes)
    key = fingerprint(
        params=data.params,
        inputs=data.inputs,
        source=code_digest(),
        torch=torch.__version__,
        device=device.type,
        threads=params.runtime.threads,
        kernels=loaded_kernels(),
    )
    network: Any = random_detector(params.detector, data.labels, params.seed).to(device)
    resume = ResumeFile(WORK / f"train-detector-{key[:16]}", key)
    history = fit_detector(
        network,
        data.batches,
        validation=data.validation,
        training=params.detector.training,
        resume=resume,
    )
    last = {k.removeprefix("val_"): v for k, v in history[-1].items() if k.startswith("val_")}
    description = describe(
        network, "trained", params=data.params, inputs=data.inputs, validation=last
    )
    EDITS.check()  # while the training can still be gone on with
    write_text(curve, curve_tsv(history))
    write_detector(output, network, description)
    resume.remove()


if __name__ == "__main__":
    main()
