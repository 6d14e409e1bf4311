"""Show what is in a cached HDF5 file, and check its digests."""

from difflib import get_close_matches
from pathlib import Path

import click
import h5py

from pipeline.features.feature_file import FeatureFile
from pipeline.features.groups import GroupFile
from pipeline.report import inspection
from pipeline.runtime.errors import WorkbenchError, counted, listing
from pipeline.runtime.process import print_json
from pipeline.runtime.text import printable
from stages.common import command, json_option, target

GROUP = "look"


@command
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--id", "row", metavar="ID", help="Show the row of one id.")
@click.option("--neighbours", "query", metavar="ID", help="List the nearest ids by cosine.")
@click.option("--verify", is_flag=True, help="Check the SHA-256 of every dataset.")
@click.option("--picture", type=target, help="With --id: PNG of the image with its regions.")
@json_option
def main(
    file: Path,
    row: str | None,
    query: str | None,
    verify: bool,
    picture: Path | None,
    as_json: bool,
) -> None:
    """Show datasets, attributes, value statistics and first ids of FILE.

    Example: vse inspect data/features/image.h5 --neighbours test_00000.jpg
    """
    if file.is_dir():
        names = listing(sorted(path.name for path in file.glob("*.h5"))) or "none"
        raise WorkbenchError(f"{file}: is a folder; name a file in it: {names}")
    if file.is_file() and file.suffix != ".h5" and not h5py.is_hdf5(file):
        raise WorkbenchError(
            f"{file}: not an HDF5 file",
            "name a file that ends in .h5, such as data/features/image.h5",
        )
    for name in (row, query):
        if name is not None:
            check_id(inspection.open_file(file), name)
    if picture is not None and row is None:
        raise WorkbenchError("--picture needs --id: the image to draw")
    if as_json:
        if row is not None or picture is not None:
            raise WorkbenchError("--json has no rows: use it without --id and --picture")
        extra: dict[str, object] = {"verified": inspection.verify_file(file)} if verify else {}
        extra |= {"neighbours": inspection.nearest_ids(file, query)} if query is not None else {}
        return print_json(inspection.file_description(file) | extra)
    if verify:
        checked = counted(inspection.verify_file(file), "dataset")
        click.echo(f"{file}: header and {checked} checked by SHA-256")
    if row is not None and picture is not None:
        draw_image(file, row, picture)
    elif row is not None:
        click.echo("\n".join(inspection.describe_row(file, row)))
    if query is not None:
        for name, cosine in inspection.nearest_ids(file, query):
            click.echo(f"{cosine:8.5f}  {printable(name)}")
    if not verify and row is None and query is None:
        click.echo("\n".join(inspection.summary_lines(file)))


def check_id(file: FeatureFile | GroupFile, name: str) -> None:
    """Refuse an id that a feature file lacks.

    Args:
        file: that is looked at; one of groups has no ids to check.
        name: the id.

    Raises:
        WorkbenchError: the file lacks it; the nearest ids are listed.
    """
    if isinstance(file, FeatureFile) and name not in file.ids:
        near = get_close_matches(name, file.ids, n=3, cutoff=0.4)
        others = listing(map(printable, near or file.ids[:3]))
        kind = "near it" if near else "the first"
        raise WorkbenchError(
            f"{file.path}: no id {name!r} among its {len(file):,}; {kind}: {others}"
        )


def draw_image(path: Path, name: str, picture: Path) -> None:
    """Write the image of an id, which the images table of dvc.yaml names, with its regions.

    Args:
        path: of the regions.
        name: the image's id.
        picture: the PNG to write.

    Raises:
        WorkbenchError: regions without boxes, or of another corpus.
    """
    from pipeline.corpus.images import file_of_image
    from pipeline.corpus.tables import load_images  # these take a second to load
    from pipeline.features.data import ImageRegions
    from pipeline.features.regions.boxes import has_boxes
    from pipeline.report.pictures import check_png, write_png
    from pipeline.report.regions import draw_regions
    from pipeline.runtime.graph import stage_paths

    check_png(picture)
    file = ImageRegions(path, in_memory=False).file
    if not has_boxes(file):
        raise WorkbenchError(f"{path}: its regions have no boxes, so none can be drawn")
    images = stage_paths("extract_region_features", ("images",))["images"]
    image = load_images(images).set_index("image_id")["path"].get(name)
    if image is None:
        raise WorkbenchError(f"{name}: not in {images}, which is of another corpus")
    write_png(draw_regions(file, name, file_of_image(name, image)), picture)
    click.echo(f"{picture}: {printable(name)} with its regions")
