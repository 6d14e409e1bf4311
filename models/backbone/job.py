"""Features of a cut network as a job: which network, and how it fills the file."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from models.backbone.build import build_network
from models.backbone.extraction import extract
from models.backbone.file import ImageNetwork, write_network
from models.backbone.inference import accelerate
from models.backbone.network import BackboneError, weights_digest
from models.backbone.params import ImageFeaturesConfig
from pipeline.corpus.tables import images_digest
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.kernels import kernels
from pipeline.runtime.repeatable import pick_device
from pipeline.runtime.section import RuntimeConfig
from pipeline.storage.layout import Attributes, Datasets
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
    """Features that a cut network makes of the images. detector: the file for weights `detector`;
    network: the file to keep the network in, None for nowhere."""
    made = build_network(settings, seed, detector)
    attributes: dict[str, str | int | float] = {
        "model": settings.model,
        "layer": ",".join(settings.layers),
        "weights_sha256": weights_digest(made.backbone),
        "params": json.dumps(made.settings),
        "corpus_sha256": images_digest(images),
    }
    if network is not None:
        write_network(network, made)  # before it is accelerated in place
    return extraction_job(
        made,
        images,
        runtime,
        attributes,
        {"features": ((made.width,), "float16")},
        precision=settings.precision,
        compiled=settings.compile,
        section="image_features",
        batch_size=settings.batch_size,
        workers=settings.workers,
        max_pixels=max_pixels,
    )


def extraction_job(
    network: ImageNetwork,
    images: pd.DataFrame,
    runtime: RuntimeConfig,
    attributes: Attributes,
    datasets: Datasets,
    *,
    precision: str,
    compiled: bool,
    section: str,
    batch_size: int,
    **options: Any,
) -> FeatureJob:
    """The job of a network, accelerated in place; precision, compiled: of `accelerate`; options: of
    `extract`."""
    device, crops = pick_device(runtime.device), network.preprocessing
    try:
        forward = accelerate(network.backbone, device, precision, compiled, batch_size, crops.crop)
    except BackboneError as error:
        raise WorkbenchError(f"{section}: {error}", "change it in params.yaml") from error
    fill = partial(
        extract,
        images,
        forward,
        crops,
        device=device,
        section=section,
        batch_size=batch_size,
        **options,
    )
    machine = [str(device), runtime.threads, torch.__version__, *kernels()]
    return FeatureJob(images["image_id"].tolist(), datasets, attributes, machine, fill)
