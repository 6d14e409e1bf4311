"""Write region features in the format of another tool."""

from pathlib import Path

import click

from pipeline.corpus.tables import load_captions, load_images
from pipeline.features.data import ImageRegions
from pipeline.features.regions.export import export_scan, export_tsv
from pipeline.runtime.graph import stage_paths
from pipeline.runtime.process import say
from stages.common import command, existing, target

GROUP = "take out"


@command
@click.argument("file", type=existing)
@click.option("--format", "kind", type=click.Choice(["scan_npy", "tsv"]), required=True)
@click.option("--output", type=target, required=True, help="Folder to write into.")
def main(file: Path, kind: str, output: Path) -> None:
    """Write the regions in FILE as SCAN's arrays with captions and ids, or as bottom-up TSV.

    Example: vse export regions data/features/regions.h5 --format tsv --output exported
    """
    regions = ImageRegions(file).file
    if kind == "tsv":
        written = [export_tsv(regions, output)]
    else:
        tables = stage_paths("extract_region_features", ("images", "captions"))
        images = load_images(tables["images"])
        written = export_scan(regions, images, load_captions(tables["captions"]), output)
    for path in written:
        say(f"written: {path}, {path.stat().st_size:,} bytes")
