"""One vector per image, from a cut and pooled network or from a file: data/features/image.h5."""

from pathlib import Path

import click

from models.backbone.file import write_no_network
from models.backbone.job import network_job
from pipeline.corpus.tables import images_digest, load_images
from pipeline.embeddings.job import import_job
from pipeline.runtime.files import fingerprint, source_digest
from pipeline.runtime.process import say, seed_everything, set_threads
from pipeline.storage.features import FeatureWriter
from stages.common import WORK, command, existing, target
from stages.params import load_params


@command
@click.option("--images", type=existing, required=True, help="Images table of the corpus.")
@click.option("--detector", type=existing, required=True, help="Weights of the detector.")
@click.option("--output", type=target, required=True, help="Feature file to write.")
@click.option("--network", type=target, required=True, help="Weights of the network to write.")
def main(images: Path, detector: Path, output: Path, network: Path) -> None:
    """Extract or import image features; a killed run continues where it stopped."""
    params = load_params()
    settings = params.image_features
    set_threads(params.runtime.threads)
    seed_everything(params.seed, settings.compile)
    table = load_images(images)
    ids = table["image_id"].tolist()
    if settings.source == "file":
        job = import_job(settings.file, ids, images_digest(table), {"source": "file"})
        write_no_network(network)
    else:
        max_pixels = int(params.corpus.max_megapixels * 1e6)
        own = settings, params.runtime, table, detector, max_pixels, params.seed
        job = network_job(*own, network)
    key = fingerprint(attributes=job.attributes, source=source_digest(), machine=job.machine)
    work = WORK / "image_features"
    with FeatureWriter(work, key, ids, job.datasets, job.attributes) as writer:
        job.fill(writer)
        writer.finish(output)
    say(f"image features: {len(table):,} x {job.width}, {job.attributes['model']}")


if __name__ == "__main__":
    main()
