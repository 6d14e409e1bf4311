"""One vector per image from a cut and pooled network: data/features/image.h5."""

import json
from pathlib import Path

import click
import torch

from models.backbones import BackboneError, classifier, cut, load_strict, weights_digest
from models.inference import accelerate
from pipeline.corpus import images_digest, load_images
from pipeline.errors import WorkbenchError
from pipeline.extraction import extract, provenance
from pipeline.feature_store import FeatureWriter
from pipeline.files import fingerprint, source_digest
from pipeline.params import load_params
from pipeline.preprocessing import preprocessing_of
from pipeline.runtime import pick_device, say, seed_everything, set_threads
from pipeline.weights import published_state
from stages.common import WORK, command, existing, target


@command
@click.option("--images", type=existing, required=True, help="Images table of the corpus.")
@click.option("--output", type=target, required=True, help="Feature file to write.")
def main(images: Path, output: Path) -> None:
    """Extract image features; a killed run continues where it stopped."""
    params = load_params()
    settings, device = params.image_features, pick_device(params.runtime.device)
    set_threads(params.runtime.threads)
    seed_everything(params.seed, settings.compile)
    table = load_images(images)
    try:
        network = classifier(settings.model, params.seed)
        state = published_state(settings.model, settings.weights)
        if state is not None:
            load_strict(network, state)
        digest = weights_digest(network)
        preprocessing = preprocessing_of(settings.model, settings.size, settings.views)
        backbone, width = cut(network, settings.layers, settings.pool, preprocessing.crop)
        batch = (settings.batch_size, preprocessing.crop)
        forward = accelerate(backbone, device, settings.precision, settings.compile, *batch)
    except BackboneError as error:
        raise WorkbenchError(f"image_features: {error}", "change it in params.yaml") from error
    attributes = {
        "model": settings.model,
        "layer": ",".join(settings.layers),
        "weights_sha256": digest,
        "params": json.dumps(provenance(settings.model_dump(), params.seed)),
        "corpus_sha256": images_digest(table),
    }
    machine = [str(device), params.runtime.threads, torch.__version__]
    key = fingerprint(attributes=attributes, source=source_digest(), machine=machine)
    datasets = {"features": ((width,), "float16")}
    work, ids = WORK / "image_features", table["image_id"].tolist()
    with FeatureWriter(work, key, ids, datasets, attributes) as writer:
        extract(
            table,
            forward,
            preprocessing,
            writer,
            batch_size=settings.batch_size,
            workers=settings.workers,
            device=device,
            max_pixels=int(params.corpus.max_megapixels * 1e6),
        )
        writer.finish(output)
    say(f"image features: {len(table):,} x {width} from {settings.model} {attributes['layer']}")


if __name__ == "__main__":
    main()
