"""Phrases of a split with the proposals of a file."""

from pipeline.phrases.found import Searched, searched, upper_bound
from pipeline.phrases.tables import PhraseTables
from pipeline.storage.features import FeatureFile


def search_of(tables: PhraseTables, split: str, proposals: FeatureFile) -> Searched:
    """The phrases of a split, and the boxes of their images."""
    phrases = tables.of_split(split)
    images = list(dict.fromkeys(phrases["image_id"]))
    rows = proposals.rows(images)
    boxes = {name: proposals.read(rows, name) for name in ("boxes", "counts")}
    return searched(phrases, tables.unions(phrases), images, boxes)


def bound_of_split(tables: PhraseTables, split: str, proposals: FeatureFile) -> float:
    """Percent of a split's phrases that any proposal is right for."""
    return upper_bound(search_of(tables, split, proposals).hits())
