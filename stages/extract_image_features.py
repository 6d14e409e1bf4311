"""One vector per image, from a cut and pooled network or from a file: data/features/image.h5."""

from pathlib import Path

from models.backbone.extraction import network_job
from models.backbone.network import write_network
from pipeline.corpus.tables import images_digest, load_captions, load_images
from pipeline.embeddings.job import import_job
from pipeline.embeddings.source import Wanted
from pipeline.runtime.engines import Engine
from pipeline.runtime.process import say
from pipeline.runtime.repeatable import setup_runtime
from pipeline.storage.shards import Plan
from stages.common import WORK, command, paths, shard_rows
from stages.params import load_params


@command
@paths("images", "detector", exist=True)
@paths("captions", exist=True, required=False)
@paths("output", "network")
@shard_rows
def main(
    images: Path,
    captions: Path | None,
    detector: Path,
    output: Path,
    network: Path,
    rows: tuple[int, int] | None,
) -> None:
    """Extract or import image features; a killed run continues where it stopped."""
    params = load_params()
    settings, shard = params.image_features, params.runtime.extraction.shard
    setup_runtime(params.runtime, compiled=settings.compile)
    table = load_images(images, rows and range(*rows))
    if settings.source == "file":
        texts = load_captions(captions) if captions else None
        wanted = Wanted(table, "image_id", "image_features.file.other_ids", texts)
        job = import_job(settings.file, wanted, images_digest(table), {"source": "file"})
        write_network(network, None)
        shard = None  # read in one go
    else:
        max_pixels = int(params.corpus.max_megapixels * 1e6)
        arguments = settings, params.runtime, table, detector, max_pixels
        job = network_job(*arguments, network if rows is None else None)
    paths = {"images": images, "detector": detector, "network": network}
    made_by = "stages.extract_image_features", paths, Engine(params.runtime)
    plan = Plan(shard, settings.batch_size, table, images_digest, *made_by)
    job.make(WORK / "image_features", output, plan, rows is not None)
    say(f"image features: {len(table):,} x {job.width}, {job.attributes['model']}")


if __name__ == "__main__":
    main()
