"""Say what a folder of captioned images holds and how it would be read, and run nothing."""

import shlex
from pathlib import Path
from tempfile import TemporaryDirectory

import click
import pandas as pd

from pipeline.corpus.dataset import READERS
from pipeline.corpus.dataset.conditions import require_rows
from pipeline.corpus.dataset.read import unusable_captions, with_characters, with_tokens
from pipeline.corpus.dataset.source import Options, Source
from pipeline.corpus.dataset.unread import with_unread
from pipeline.corpus.params import CorpusConfig, ShapesConfig
from pipeline.corpus.scripts import describe_captions
from pipeline.corpus.tables import SPLITS
from pipeline.runtime.errors import counted, listing
from pipeline.runtime.process import uncollected
from pipeline.runtime.text import printable
from stages.common import command

GROUP = "look"

SHOWN = 3
LONGEST = 100  # characters of a caption that are shown


@command
@click.argument("folder", metavar="FOLDER", type=click.Path(path_type=Path))
@click.option("--dataset", default="auto", show_default=True, help="Reader; auto: by the files.")
@click.option("--annotations", help="File in FOLDER to read, as corpus.annotations.")
@click.option("--images", help="Folder of the images in FOLDER, as corpus.images.")
@click.option("--image-field", help="Column of the images, as corpus.image_field.")
@click.option("--caption-field", help="Column of the captions, as corpus.caption_field.")
@click.option("--rows", help="Rows to read, such as lang=en, as corpus.rows.")
@click.option(
    "--text-lines",
    type=click.Choice(["each", "joined", "first"]),
    help="What lines of texts beside images are, as corpus.text_lines.",
)
def main(folder: Path, dataset: str, **named: str | None) -> None:
    """Say which reader reads FOLDER, what it finds there, and show the first pairs.

    No image is decoded and nothing is written. Splits that the files do not give are shown as the
    recipe `photographs` draws them, a tenth for validation and for test.

    Example: vse look /data/flickr8k
    """
    corpus = CorpusConfig(val_images=0.1, test_images=0.1).model_copy(update=named)
    require_rows(dataset, corpus.rows)
    options = Options(seed=0, corpus=corpus, shapes=ShapesConfig(), look=True)
    with TemporaryDirectory() as nowhere, uncollected():
        source = with_characters(READERS.load(dataset)(folder, Path(nowhere) / "corpus", options))
        source = with_unread(source)
    # images of shards would be written to a folder that is gone by now
    place = folder if source.root.is_relative_to(nowhere) else source.root
    for line in source_lines(source, corpus.max_words, place):
        click.echo(line)
    chosen = [f"dataset={dataset}"] if dataset != "auto" else []
    chosen += [f"corpus.{key}={value}" for key, value in named.items() if value is not None]
    settings = (f"raw={folder.absolute()}", *chosen, *source.settings)
    options_of_recipe = " ".join(f"-S {shlex.quote(setting)}" for setting in settings)
    click.echo(f"to read it: vse recipe photographs {options_of_recipe}")
    if not source.has_files:
        model = "scan" if settings[-1].startswith("regions.") else "vse"
        click.echo(f"then, by name, the models of these features: dvc repro evaluate@{model}")


def source_lines(source: Source, max_words: int, place: Path) -> list[str]:
    """What a reader found, for the user.

    Args:
        source: what it read.
        max_words: corpus.max_words, the most words of a caption.
        place: where its images are.

    Returns:
        Lines: remarks, images, captions, what cannot be used, and the first pairs.
    """
    images = source.images
    captions = with_tokens(source.captions)
    by_split = images["split"].value_counts()
    splits = ", ".join(f"{split} {by_split.get(split, 0):,}" for split in SPLITS)
    lines = [*source.remarks, f"images: {len(images):,} ({splits}) in {place}"]
    absent = [
        image
        for image in images["image_id"]
        if source.has_files and "fault" not in images and not (source.root / image).exists()
    ]
    if absent:
        lines.append(f"not there: {counted(len(absent), 'image')}: {listing(absent, 3)}")
    numbers = captions["image_id"].value_counts()
    lines.append(f"{counted(len(captions), 'caption')}, {_range_text(numbers)} an image")
    if len(captions):
        lines += describe_captions(captions)
    faults = [reason for _, _, reason in unusable_captions(captions, max_words)]
    if faults:
        lines.append(f"cannot be used: {counted(len(faults), 'caption')}: {listing(faults, 3)}")
    first = captions.head(SHOWN)
    for image_id, text in zip(first["image_id"], first["text"], strict=True):
        lines.append(f"  {printable(image_id)} | {printable(text)[:LONGEST]}")
    return lines


def _range_text(numbers: "pd.Series[int]") -> str:
    """The smallest and largest of some numbers, one where they are equal."""
    if numbers.empty:
        return "0"
    smallest = numbers.min()
    largest = numbers.max()
    return f"{smallest:,}" if smallest == largest else f"{smallest:,} to {largest:,}"
