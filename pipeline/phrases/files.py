"""Phrases of a split with the proposals of a file."""

import pandas as pd

from pipeline.phrases.found import Searched, upper_bound
from pipeline.phrases.tables import PhraseTables
from pipeline.storage.features import FeatureFile


def search_of(tables: PhraseTables, split: str, proposals: FeatureFile) -> Searched:
    """The phrases of a split, and the boxes of their images."""
    phrases = tables.of_split(split)
    images, names = pd.factorize(phrases["image_id"])
    rows = proposals.rows(names.tolist())
    boxes, counts = (proposals.read(rows, name) for name in ("boxes", "counts"))
    return Searched(phrases, images, boxes, counts, tables.unions(phrases))


def bound_of_split(tables: PhraseTables, split: str, proposals: FeatureFile) -> float:
    """Percent of a split's phrases that any proposal is right for."""
    return upper_bound(search_of(tables, split, proposals).hits())
