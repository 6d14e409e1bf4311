"""Other tools' regions, as the job that fills a file of regions."""

from functools import partial
from pathlib import Path

import pandas as pd

from pipeline.corpus import load_captions
from pipeline.precomputed import Corpus, import_regions, imported_slots, open_source
from pipeline.region_extraction import described
from pipeline.region_file import RegionJob
from pipeline.sections import Regions


def import_job(settings: Regions, images: pd.DataFrame, captions: Path | None) -> RegionJob:
    """Regions from other tools' files; WorkbenchError for all that does not fit the corpus."""
    table = load_captions(captions) if captions else None
    corpus = Corpus(images, table, skip_others=settings.other_images == "skip")
    source = open_source(settings.source, settings.path, corpus)
    attributes = described(
        images,
        settings.model_dump(),
        model=f"imported from {settings.source}",
        layer="unknown",
        weights=source.digest,
        has_boxes=source.has_boxes,
    )
    slots = imported_slots(source, settings.boxes, settings.max)
    fill = partial(import_regions, source, batch_size=settings.batch_size)
    return RegionJob(slots, source.width, attributes, [], fill)
