"""From a query to its embedding: a trained model, checked against what it was trained with, so that
a query lands in the space of the stored embeddings. Paths are those of the commands in dvc.yaml.

Models that compare regions with words have no such space: theirs are vectors that make a shortlist,
whose members are scored by the model itself.
"""

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from PIL import Image

from pipeline.checkpoint import Checkpoint, read_checkpoint
from pipeline.errors import WorkbenchError
from pipeline.graph import stage_paths
from pipeline.search import Index, best

KINDS = {  # model -> how it takes queries
    "cca": "stages.systems.query_vectors:VectorQueries",
    "dp_rnn": "stages.systems.query_pairs:DPRNNQueries",
    "dual_path": "stages.systems.query_dual_path:DualPathQueries",
    "scan": "stages.systems.query_pairs:SCANQueries",
    "two_branch": "stages.systems.query_vectors:VectorQueries",
    "vse": "stages.systems.query_vectors:VectorQueries",
}
FILES = ("images", "captions", "features", "text", "checkpoint", "output")


@dataclass(frozen=True)
class Query:
    """vector: (K,) embedding; rescore: from N ids of what is searched to their scores (N,) by the
    model itself, None where embeddings are all that it compares."""

    vector: np.ndarray
    rescore: Callable[[Sequence[str]], np.ndarray] | None = None


class QueryModel(Protocol):
    """A model that takes queries: made from the paths of its artefacts, by the options of
    `stages.score`, its weights and a device.

    Raises WorkbenchError for files that are missing, damaged, or not those of the training.
    """

    def of_words(self, words: Sequence[str], wordnet: Path | None) -> Query:
        """The query of the words of a text; unknown ones are named on standard error.

        wordnet: as in pipeline.sentences.encoder.read_encoder. WorkbenchError when none is known.
        """

    def of_image(self, image: Image.Image) -> Query:
        """The query of an RGB image, read as the corpus's were."""


def open_queries(name: str, device: torch.device) -> tuple[QueryModel, dict[str, Path], Checkpoint]:
    """A model by its name, its artefacts and its weights; WorkbenchError for an unknown name."""
    if name not in KINDS:
        raise WorkbenchError(f"model {name!r}: allowed are {', '.join(sorted(KINDS))}")
    files = stage_paths("score", FILES, name)
    checkpoint = read_checkpoint(files["checkpoint"], name)
    module, kind = KINDS[name].split(":")
    made: Any = getattr(importlib.import_module(module), kind)(files, checkpoint, device)
    return made, files, checkpoint


def rescored(index: Index, query: Query, count: int) -> tuple[Index, np.ndarray]:
    """What is searched with its scores (N,); the `count` nearest alone where a model rescores."""
    scores = index.similarities(query.vector)
    if query.rescore is None:
        return index, scores
    rows = best(scores, count)
    near = Index([index.ids[row] for row in rows], index.embeddings[rows])
    return near, query.rescore(near.ids)
