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
from pipeline.runtime.kernels import loaded_kernels
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
    network: Path | None,
) -> FeatureJob:
    """Features that a cut network makes of the images. detector: the file for weights `detector`;
    network: the file to keep the network in, None for nowhere."""
    image_network = build_network(settings, detector)
    attributes: dict[str, str | int | float] = {
        "model": settings.model,
        "layer": ",".join(settings.layers),
        "weights_sha256": weights_digest(image_network.backbone),
        "params": json.dumps(image_network.settings),
        "corpus_sha256": images_digest(images),
    }
    if network is not None:
        write_network(network, image_network)  # before it is accelerated in place
    datasets = {"features": ((image_network.width,), "float16")}
    arguments = image_network, images, runtime, attributes, datasets, settings, settings
    return extraction_job(*arguments, section="image_features", max_pixels=max_pixels)


def extraction_job(
    network: ImageNetwork,
    images: pd.DataFrame,
    runtime: RuntimeConfig,
    attributes: Attributes,
    datasets: Datasets,
    arithmetic: Any,
    loading: Any,
    section: str,
    **options: Any,
) -> FeatureJob:
    """The job of a network, accelerated in place. arithmetic: settings with `precision` and
    `compile`; loading: settings with `batch_size` and `workers`; options: of `extract`."""
    device, size = pick_device(runtime.device), loading.batch_size
    kind = arithmetic.precision, arithmetic.compile, size, network.preprocessing.crop
    try:
        forward = accelerate(network.backbone, device, *kind)
    except BackboneError as error:
        raise WorkbenchError(f"{section}: {error}", "change it in params.yaml") from error
    options |= {"batch_size": size, "workers": loading.workers, "device": device}
    fill = partial(extract, images, forward, network.preprocessing, section=section, **options)
    machine = [str(device), runtime.threads, torch.__version__, *loaded_kernels()]
    return FeatureJob(images["image_id"].tolist(), datasets, attributes, machine, fill)
