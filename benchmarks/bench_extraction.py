"""Feature extraction: what the loop costs over the bare network, and how fast that network is."""

import tempfile
from pathlib import Path

import numpy as np
import torch

from benchmarks.common import Row, paired_ratio, photographs, where_time_goes
from models.backbone.extraction import extract
from models.backbone.inference import accelerate
from models.backbone.network import classifier, cut
from models.backbone.preprocessing import preprocessing_of
from pipeline.storage.features import FeatureWriter

CPU = torch.device("cpu")
BATCH = 64  # the default of params.yaml


def rows() -> list[Row]:
    """The loop in two settings, then the network at both precisions."""
    return [
        loop_row("resnet18", ["layer1", "layer2", "layer3"], (128, 128), 128, 64, 1536, 95),
        loop_row("resnet50", ["pool5"], (500, 375), None, 16, 128, 97),
        forward_row("fp32", target=2.2),
        forward_row("bf16", target=4.5),
    ]


def loop_row(
    model: str,
    layers: list[str],
    picture: tuple[int, int],
    size: int | None,
    batch_size: int,
    images: int,
    target: int,
) -> Row:
    """Extraction from JPEG files to HDF5 against the same forward passes on a batch in memory."""
    preprocessing = preprocessing_of(model, size, "center")
    backbone, width = cut(classifier(model, 0), layers, "mean_max", preprocessing.crop)
    forward = accelerate(backbone, CPU, "fp32", False, batch_size, preprocessing.crop)
    batch = _images(batch_size, preprocessing.crop)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        table = photographs(folder, picture, images)

        def ours() -> None:
            shapes = {"features": ((width,), np.float16)}
            with FeatureWriter(folder, "work", table["image_id"].tolist(), shapes, {}) as writer:
                of = table, forward, preprocessing, writer
                extract(*of, batch_size=batch_size, workers=2, device=CPU)
                writer.finish(folder / "image.h5")

        def bare() -> None:
            for _ in range(images // batch_size):
                forward(batch)

        pair = paired_ratio(ours, bare, runs=3)
        share = 100 / pair.ratio
        profile = where_time_goes(ours) if share < target else ""
    work = f"extraction, {model} at {preprocessing.crop}, {picture[0]} x {picture[1]} JPEG files"
    figure = (
        f"{share:.0f} % of the bare forward pass, {images / pair.ours.wall:.0f} images/s "
        f"({pair.seconds(pair.processor)})"
    )
    return Row(work, figure, f">= {target} %", share >= target, profile=profile)


def forward_row(precision: str, target: float) -> Row:
    """ResNet-50 at 224, channels-last, folded and compiled, against the plain float32 network."""
    plain, quick = (cut(classifier("resnet50", 0), ["pool5"], "mean", 224)[0] for _ in range(2))
    batch = _images(BATCH, 224)
    fast = accelerate(quick, CPU, precision, True, BATCH, 224)
    reference = torch.inference_mode()(plain.forward)
    cosine = torch.cosine_similarity(fast(batch).double(), reference(batch).double()).min()
    pair = paired_ratio(lambda: fast(batch), lambda: reference(batch), runs=3)
    figure = (
        f"{pair.faster('plain float32')}, {BATCH / pair.ours.wall:.0f} images/s, "
        f"1 - cosine of the features {1 - cosine.item():.1e}"
    )
    work = f"forward pass of ResNet-50 at 224, {precision}, folded and compiled"
    return Row(work, figure, f">= {target}x", 1 / pair.ratio >= target)


def _images(count: int, size: int) -> torch.Tensor:
    return torch.randn(count, 3, size, size, generator=torch.Generator().manual_seed(0))
