"""What the analyses look at: which images and captions of a score file, and with what vectors."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from pipeline.evaluation.correlation import Correlation, correlate, sample_rows
from pipeline.evaluation.score_file import SplitScores
from pipeline.runtime.errors import WorkbenchError
from pipeline.search.index import rows_of
from pipeline.storage.features import FeatureFile

FEATURES = "image features"  # the label of what a model was given, before any training


def correlations(
    scores: Mapping[str, SplitScores], features: Path, count: int, seed: int
) -> tuple[dict[str, Correlation], list[str]]:
    """Correlations by label, of features and of embeddings, and the `count` images drawn for it."""
    first, file = next(iter(scores.values())), FeatureFile(features)
    ids = [first.image_ids[row] for row in sample_rows(len(first.image_ids), count, seed)]
    by_label = {FEATURES: correlate(file.read(file.rows(ids)), ids)}
    for label, split in scores.items():
        vectors = _embeddings(split, label)
        by_label[label] = correlate(vectors[rows_of(pd.Index(split.image_ids), ids, label)], ids)
    return by_label, ids


def described(
    scores: SplitScores, captions: pd.DataFrame, count: int, seed: int
) -> tuple[pd.DataFrame, np.ndarray]:
    """Captions drawn from the seed, rows of their table; embeddings (count, K) of their images."""
    ids = [scores.caption_ids[row] for row in sample_rows(len(scores.caption_ids), count, seed)]
    table = captions.iloc[rows_of(pd.Index(captions["caption_id"]), ids, "the corpus")]
    images = rows_of(pd.Index(scores.image_ids), table["image_id"], "the scores")
    return table.reset_index(drop=True), _embeddings(scores, "the model")[images]


def _embeddings(scores: SplitScores, label: str) -> np.ndarray:
    if scores.image_embeddings is None:
        text = f"{label}: its scores have no vectors of single images"
        raise WorkbenchError(text, "choose other analyses with --only")
    return scores.image_embeddings
