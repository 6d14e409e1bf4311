"""Image features as a job: the network of params.yaml, and how it fills the file."""

import json
from functools import partial
from pathlib import Path

import pandas as pd
import torch

from models.backbone.build import build_network
from models.backbone.extraction import extract
from models.backbone.file import write_network
from models.backbone.inference import accelerate
from models.backbone.network import BackboneError, weights_digest
from models.backbone.params import ImageFeaturesConfig
from pipeline.corpus.tables import images_digest
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.kernels import kernels
from pipeline.runtime.repeatable import pick_device
from pipeline.runtime.section import RuntimeConfig
from pipeline.storage.shards import FeatureJob


def network_job(
    settings: ImageFeaturesConfig,
    runtime: RuntimeConfig,
    images: pd.DataFrame,
    detector: Path,
    max_pixels: int,
    seed: int,
    network: Path | None,
) -> FeatureJob:
    """Features that a cut network makes of the images.

    Args:
        settings: the section `image_features`.
        runtime: its device is where the network runs.
        images: N rows of the corpus's table.
        detector: the file that weights `detector` are taken from.
        max_pixels: larger images are refused before they are decoded.
        seed: of random weights.
        network: the file to keep the network in, None for nowhere.

    Raises:
        WorkbenchError: a network that cannot be used.
    """
    made, device = build_network(settings, seed, detector), pick_device(runtime.device)
    attributes: dict[str, str | int | float] = {
        "model": settings.model,
        "layer": ",".join(settings.layers),
        "weights_sha256": weights_digest(made.backbone),
        "params": json.dumps(made.settings),
        "corpus_sha256": images_digest(images),
    }
    if network is not None:
        write_network(network, made)  # before it is accelerated in place
    batch = (settings.batch_size, made.preprocessing.crop)
    try:
        forward = accelerate(made.backbone, device, settings.precision, settings.compile, *batch)
    except BackboneError as error:
        raise WorkbenchError(f"image_features: {error}", "change it in params.yaml") from error
    fill = partial(
        extract,
        images,
        forward,
        made.preprocessing,
        batch_size=settings.batch_size,
        workers=settings.workers,
        device=device,
        max_pixels=max_pixels,
    )
    machine = [str(device), runtime.threads, torch.__version__, *kernels()]
    datasets = {"features": ((made.width,), "float16")}
    return FeatureJob(images["image_id"].tolist(), datasets, attributes, machine, fill)
