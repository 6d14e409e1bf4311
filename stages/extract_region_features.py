"""Regions of every image: detected, cells of a grid, or from another tool's files:
data/features/regions.h5."""

from pathlib import Path

from models.backbone.grid import grid_job
from models.detector.extraction import detector_job
from pipeline.corpus.tables import images_digest, load_images
from pipeline.features.kept_rows import RowStore
from pipeline.features.regions.source import import_job
from pipeline.features.shards import Plan
from pipeline.runtime.engines import Engine
from pipeline.runtime.process import say
from pipeline.runtime.repeatable import setup_runtime
from stages.common import WORK, command, paths, shard_rows
from stages.params import load_params


@command
@paths("images", exist=True)
@paths("captions", exist=True, required=False)
@paths("output")
@paths("detector", required=False)
@shard_rows
def main(
    images: Path,
    captions: Path | None,
    detector: Path | None,
    output: Path,
    rows: tuple[int, int] | None,
) -> None:
    """Extract or import region features; a killed run continues where it stopped."""
    params = load_params()
    settings = params.regions
    shard = params.runtime.extraction.shard
    setup_runtime(params.runtime)
    table = load_images(images, rows and range(*rows))
    max_pixels = int(params.corpus.max_megapixels * 1e6)
    if settings.source == "grid":
        job = grid_job(settings, params.runtime, table, detector, max_pixels)
    elif settings.source == "detector":
        job = detector_job(settings, params.runtime, table, detector, max_pixels)
    else:
        job = import_job(settings, table, captions)
        shard = None  # read in one go
    plan = Plan(
        size=shard,
        batch=settings.batch_size,
        table=table,
        digest=images_digest,
        module="stages.extract_region_features",
        paths={"images": images, "detector": detector},
        engine=Engine(params.runtime),
        store=RowStore(WORK / "rows", params.runtime.extraction.kept_gb),
    )
    job.make(WORK / "region_features", output, plan, rows is not None)
    slots, _ = job.datasets["features"][0]
    say(f"regions: {len(table):,} x {slots} x {job.width}, {job.attributes['model']}")


if __name__ == "__main__":
    main()
