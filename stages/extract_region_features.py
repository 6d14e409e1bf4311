"""Regions of every image, detected, cells of a grid or from another tool's files:
data/features/regions.h5."""

from pathlib import Path

import click

from models.backbone.regions import grid_job
from models.detector.extraction import detector_job
from pipeline.corpus.tables import load_images
from pipeline.regions.file import region_datasets
from pipeline.regions.imports import import_job
from pipeline.runtime.files import fingerprint, source_digest
from pipeline.runtime.process import say, seed_everything, set_threads
from pipeline.storage.features import FeatureWriter
from stages.common import WORK, command, existing, target
from stages.params import load_params


@command
@click.option("--images", type=existing, required=True, help="Images table of the corpus.")
@click.option("--captions", type=existing, help="Captions table; for SCAN's files without ids.")
@click.option("--detector", type=target, help="Detector file; for detector and grid.")
@click.option("--output", type=target, required=True, help="Feature file to write.")
def main(images: Path, captions: Path | None, detector: Path | None, output: Path) -> None:
    """Extract or import region features; a killed run continues where it stopped."""
    params = load_params()
    settings = params.regions
    set_threads(params.runtime.threads)
    seed_everything(params.seed)
    table = load_images(images)
    max_pixels = int(params.corpus.max_megapixels * 1e6)
    if settings.source == "grid":
        job = grid_job(settings, params.runtime, table, detector, max_pixels, params.seed)
    elif settings.source == "detector":
        job = detector_job(settings, params.runtime, table, detector, max_pixels)
    else:
        job = import_job(settings, table, captions)
    key = fingerprint(attributes=job.attributes, source=source_digest(), machine=job.machine)
    datasets, ids = region_datasets(job.slots, job.width), table["image_id"].tolist()
    with FeatureWriter(WORK / "region_features", key, ids, datasets, job.attributes) as writer:
        job.fill(writer)
        writer.finish(output)
    say(f"regions: {len(table):,} x {job.slots} x {job.width}, {job.attributes['model']}")


if __name__ == "__main__":
    main()
