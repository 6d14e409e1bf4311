"""One vector per image from a cut and pooled network: data/features/image.h5."""

import json
from pathlib import Path

import click
import torch

from models.backbone.build import build_network
from models.backbone.extraction import extract
from models.backbone.file import write_network
from models.backbone.inference import accelerate
from models.backbone.network import BackboneError, weights_digest
from pipeline.corpus.tables import images_digest, load_images
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.files import fingerprint, source_digest
from pipeline.runtime.process import pick_device, say, seed_everything, set_threads
from pipeline.storage.features import FeatureWriter
from stages.common import WORK, command, existing, target
from stages.params import load_params


@command
@click.option("--images", type=existing, required=True, help="Images table of the corpus.")
@click.option("--detector", type=existing, required=True, help="Weights of the detector.")
@click.option("--output", type=target, required=True, help="Feature file to write.")
@click.option("--network", type=target, required=True, help="Weights of the network to write.")
def main(images: Path, detector: Path, output: Path, network: Path) -> None:
    """Extract image features; a killed run continues where it stopped."""
    params = load_params()
    settings, device = params.image_features, pick_device(params.runtime.device)
    set_threads(params.runtime.threads)
    seed_everything(params.seed, settings.compile)
    table = load_images(images)
    made = build_network(settings, params.seed, detector)
    attributes = {
        "model": settings.model,
        "layer": ",".join(settings.layers),
        "weights_sha256": weights_digest(made.backbone),
        "params": json.dumps(made.settings),
        "corpus_sha256": images_digest(table),
    }
    write_network(network, made)  # before it is accelerated in place
    batch = (settings.batch_size, made.preprocessing.crop)
    try:
        forward = accelerate(made.backbone, device, settings.precision, settings.compile, *batch)
    except BackboneError as error:
        raise WorkbenchError(f"image_features: {error}", "change it in params.yaml") from error
    machine = [str(device), params.runtime.threads, torch.__version__]
    key = fingerprint(attributes=attributes, source=source_digest(), machine=machine)
    datasets = {"features": ((made.width,), "float16")}
    work, ids = WORK / "image_features", table["image_id"].tolist()
    with FeatureWriter(work, key, ids, datasets, attributes) as writer:
        extract(
            table,
            forward,
            made.preprocessing,
            writer,
            batch_size=settings.batch_size,
            workers=settings.workers,
            device=device,
            max_pixels=int(params.corpus.max_megapixels * 1e6),
        )
        writer.finish(output)
    say(f"image features: {len(table):,} x {made.width} from {settings.model}")


if __name__ == "__main__":
    main()
