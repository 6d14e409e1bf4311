"""From the phrases section of params.yaml to the tables of phrases, whatever they come from."""

from pathlib import Path

import pandas as pd

from pipeline.dataset.source import Options
from pipeline.phrases.entities import read_entities
from pipeline.phrases.params import PhrasesConfig
from pipeline.phrases.tables import PHRASE_BOXES, PHRASES, PhraseTables
from pipeline.phrases.world import read_world
from pipeline.runtime.process import say


def read_phrases(
    settings: PhrasesConfig,
    dataset: str,
    raw: Path,
    images: pd.DataFrame,
    captions: pd.DataFrame,
    options: Options,
) -> PhraseTables:
    """The phrases of the corpus, none for a dataset that has none of its own.

    Args:
        settings: the section phrases.
        dataset: name of the corpus's reader.
        raw: folder that it read.
        images: table of the corpus.
        captions: table of the corpus.
        options: what the reader depended on.

    Raises:
        WorkbenchError: anything that cannot be used.
    """
    if settings.source == "flickr30k_entities":
        by_lists = settings.splits == "lists"
        tables = read_entities(raw, settings.path, by_lists, images, captions)
    elif settings.source == "corpus" and dataset == "shapes":
        tables = read_world(raw, captions, options)
    else:
        say(f"phrases.source = {settings.source}: the dataset {dataset} has no phrases with boxes")
        schemas = PHRASES, PHRASE_BOXES
        return PhraseTables(*(pd.DataFrame(columns=schema.names) for schema in schemas))
    return tables if settings.train_images is None else first_images(tables, settings.train_images)


def first_images(tables: PhraseTables, number: int) -> PhraseTables:
    """The tables with the phrases of the first `number` training images alone."""
    phrases, boxes = tables.phrases, tables.boxes
    training = phrases["image_id"][phrases["split"] == "train"].drop_duplicates()
    dropped = set(training[number:])
    if not dropped:
        return tables
    say(f"left out: phrases of {len(dropped):,} training images (phrases.train_images)")
    kept = [table[~table["image_id"].isin(dropped)] for table in (phrases, boxes)]
    return PhraseTables(*(table.reset_index(drop=True) for table in kept))
