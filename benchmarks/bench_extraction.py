"""Feature extraction: what the loop costs over the bare network, and how fast that network is."""

from collections.abc import Iterator

import numpy as np
import torch

from benchmarks.common import Row, new_folder, paired_ratio, photographs, size
from models.backbone.extraction import extract
from models.backbone.inference import accelerate
from models.backbone.network import classifier, cut
from models.backbone.preprocessing import preprocessing_of
from pipeline.storage.features import FeatureWriter

CPU = torch.device("cpu")
BATCH = size(64, 2)  # the default of params.yaml
LARGE = size(16, 2)  # of ResNet-50's loop


def rows() -> Iterator[Row]:
    """The loop in two settings, then the network at both precisions."""
    layers = ["layer1", "layer2", "layer3"]
    yield from loop("resnet18", layers, size((128, 128), (40, 40)), size(128, 40), BATCH, 24, 95)
    yield from loop("resnet50", ["pool5"], size((500, 375), (64, 48)), None, LARGE, 8, 97)
    yield forward_row("fp32", 2.2)
    yield forward_row("bf16", 4.5)


def loop(
    model: str,
    layers: list[str],
    picture: tuple[int, int],
    side: int | None,
    batch_size: int,
    batches: int,
    target: int,
) -> Iterator[Row]:
    """Extraction from JPEG files to HDF5 against the same forward passes on a batch in memory."""
    preprocessing = preprocessing_of(model, side, "center")
    backbone, width = cut(classifier(model, 0), layers, "mean_max", preprocessing.crop)
    forward = accelerate(backbone, CPU, "fp32", False, batch_size, preprocessing.crop)
    batch = random_images(batch_size, preprocessing.crop)
    batches = size(batches, 1)
    with new_folder() as folder:
        table = photographs(folder, picture, batches * batch_size)

        def ours() -> None:
            shapes = {"features": ((width,), np.float16)}
            with FeatureWriter(folder, "work", table["image_id"].tolist(), shapes, {}) as writer:
                of = table, forward, preprocessing, writer
                extract(*of, batch_size=batch_size, workers=2, device=CPU)
                writer.finish(folder / "image.h5")

        pair = paired_ratio(ours, lambda: [forward(batch) for _ in range(batches)], runs=3)
        share, rate = 100 / pair.ratio, len(table) / pair.ours.wall
        crop = preprocessing.crop
        yield Row(
            f"extraction, {model} at {crop}, {picture[0]} x {picture[1]} JPEG files",
            f"{share:.0f} % of the bare forward pass, {rate:.0f} images/s "
            f"({pair.seconds(pair.processor)})",
            f">= {target} %",
            share,
            ours,
        )


def forward_row(precision: str, target: float) -> Row:
    """ResNet-50 at 224, channels-last, folded and compiled, against the plain float32 network."""
    side = size(224, 32)
    plain, quick = (cut(classifier("resnet50", 0), ["pool5"], "mean", side)[0] for _ in range(2))
    batch = random_images(BATCH, side)
    fast = accelerate(quick, CPU, precision, True, BATCH, side)
    reference = torch.inference_mode()(plain.forward)
    cosine = torch.cosine_similarity(fast(batch).double(), reference(batch).double()).min()
    pair = paired_ratio(lambda: fast(batch), lambda: reference(batch), runs=3)
    figure = (
        f"{pair.faster('plain float32')}, {BATCH / pair.ours.wall:.0f} images/s, "
        f"1 - cosine of the features {1 - cosine.item():.1e}"
    )
    work = f"forward pass of ResNet-50 at {side}, {precision}, folded and compiled"
    return Row(work, figure, f">= {target}x", 1 / pair.ratio)


def random_images(count: int, side: int) -> torch.Tensor:
    """Pixels (count, 3, side, side)."""
    return torch.randn(count, 3, side, side, generator=torch.Generator().manual_seed(0))
