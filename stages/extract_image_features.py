"""One vector per image, from a cut and pooled network or from a file: data/features/image.h5."""

from pathlib import Path

from models.backbone.extraction import network_job
from models.backbone.network import write_network
from pipeline.corpus.tables import images_digest, load_captions, load_images
from pipeline.features.imports import IMPORTS, Wanted
from pipeline.features.kept_rows import RowStore
from pipeline.features.shards import Plan
from pipeline.runtime.engines import Engine
from pipeline.runtime.process import say
from pipeline.runtime.repeatable import setup_runtime
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
    settings = params.image_features
    shard = params.runtime.extraction.shard
    setup_runtime(params.runtime, compiled=settings.compile)
    table = load_images(images, rows and range(*rows))
    if settings.source in IMPORTS:
        import_job = IMPORTS.load(settings.source)
        texts = load_captions(captions) if captions else None
        wanted = Wanted(table, "image_id", "image_features.file.other_ids", texts)
        described = {"source": settings.source}
        job = import_job(settings.file, wanted, images_digest(table), described)
        write_network(network, None)  # says that there is none
        shard = None  # read in one go
    else:
        job = network_job(
            settings,
            params.runtime,
            images=table,
            detector=detector,
            max_pixels=int(params.corpus.max_megapixels * 1e6),
            network=network if rows is None else None,
        )
    plan = Plan(
        size=shard,
        batch=settings.batch_size,
        table=table,
        digest=images_digest,
        module="stages.extract_image_features",
        paths={"images": images, "detector": detector, "network": network},
        engine=Engine(params.runtime),
        store=RowStore(WORK / "rows", params.runtime.extraction.kept_gb),
    )
    job.make(WORK / "image_features", output, plan, rows is not None)
    say(f"image features: {len(table):,} x {job.width}, {job.attributes['model']}")


if __name__ == "__main__":
    main()
