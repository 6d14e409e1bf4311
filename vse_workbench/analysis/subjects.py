"""What the analyses look at: which images and captions of a score file, and with what vectors."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from pipeline.evaluation.correlation import Correlation, correlate, sample_rows
from pipeline.evaluation.score_file import SplitScores
from pipeline.features.feature_file import FeatureFile
from pipeline.runtime.errors import WorkbenchError
from pipeline.search.index import rows_of_ids

FEATURES = "image features"  # the label of what a model was given, before any training


def compute_correlations(
    scores: Mapping[str, SplitScores], features: Path, count: int, seed: int
) -> tuple[dict[str, Correlation], list[str]]:
    """How alike images are by the features that models were given, and by their embeddings.

    Args:
        scores: of a split, by label.
        features: the file of the image features.
        count: images that are drawn, all where there are fewer.
        seed: of the draw.

    Returns:
        Correlations by label, features first, and the ids of the images.

    Raises:
        WorkbenchError: scores without embeddings of single images, or of other images.
    """
    first = next(iter(scores.values()))
    file = FeatureFile(features)
    ids = [first.image_ids[row] for row in sample_rows(len(first.image_ids), count, seed)]
    by_label = {FEATURES: correlate(file.read(file.rows(ids)), ids)}
    for label, split in scores.items():
        vectors = _embeddings(split, label)
        by_label[label] = correlate(
            vectors[rows_of_ids(pd.Index(split.image_ids), ids, label)], ids
        )
    return by_label, ids


def drawn_captions(
    scores: SplitScores, captions: pd.DataFrame, count: int, seed: int
) -> tuple[pd.DataFrame, np.ndarray]:
    """Captions drawn for an analysis, with the vectors of their images.

    Args:
        scores: of the split, with embeddings.
        captions: the captions table.
        count: captions that are drawn, all where there are fewer.
        seed: of the draw.

    Returns:
        Rows of the table, and embeddings (count, K) of their images.

    Raises:
        WorkbenchError: scores without embeddings of single images, or of another corpus.
    """
    ids = [scores.caption_ids[row] for row in sample_rows(len(scores.caption_ids), count, seed)]
    table = captions.iloc[rows_of_ids(pd.Index(captions["caption_id"]), ids, "the corpus")]
    images = rows_of_ids(pd.Index(scores.image_ids), table["image_id"], "the scores")
    return table.reset_index(drop=True), _embeddings(scores, "the model")[images]


def _embeddings(scores: SplitScores, label: str) -> np.ndarray:
    if scores.image_embeddings is None:
        raise WorkbenchError(
            f"{label}: its scores have no vectors of single images",
            "choose other analyses with --only",
        )
    return scores.image_embeddings
