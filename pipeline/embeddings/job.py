"""Importing a file of vectors: matched with the corpus, then copied block by block."""

import importlib
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline.embeddings.ids import matched
from pipeline.embeddings.source import IMPORTED, Block, Embeddings
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.files import sha256_file
from pipeline.runtime.process import Progress
from pipeline.runtime.section import EmbeddingFileConfig
from pipeline.storage.shards import FeatureJob
from pipeline.storage.writer import FeatureWriter

# Imported when a file is read: some load libraries that take a second.
READERS = {
    ".npy": "pipeline.embeddings.arrays:read_npy",
    ".npz": "pipeline.embeddings.arrays:read_npz",
    ".h5": "pipeline.embeddings.hdf5:read_hdf5",
    ".hdf5": "pipeline.embeddings.hdf5:read_hdf5",
    ".parquet": "pipeline.embeddings.parquet:read_parquet",
    ".safetensors": "pipeline.embeddings.tensors:read_safetensors",
}


def open_embeddings(settings: EmbeddingFileConfig) -> Embeddings:
    """The file that the settings name; WorkbenchError for all that can be seen before its values
    are read."""
    path = Path(settings.path or "")
    if not path.is_file():
        raise WorkbenchError(f"file.path = {settings.path}: no such file", "mend params.yaml")
    module, _, function = READERS[path.suffix].partition(":")
    found: Embeddings = getattr(importlib.import_module(module), function)(
        path, settings.ids, settings.features
    )
    return found


def import_job(
    settings: EmbeddingFileConfig,
    ids: Sequence[str],
    corpus_sha256: str,
    described: dict[str, Any],
) -> FeatureJob:
    """Vectors of a file that was made elsewhere, in the order of the corpus.

    The file is told by its digest, whatever its name; while that is computed the ids are read.

    Args:
        settings: the section `file` of image_features or sentences.
        ids: N, of the corpus.
        corpus_sha256: digest of what the ids name.
        described: what the file of features says of the settings that chose this.

    Raises:
        WorkbenchError: a file that does not fit the corpus.
    """
    with ThreadPoolExecutor(1) as pool:
        digest = pool.submit(sha256_file, settings.path or "")
        source = open_embeddings(settings)
        places = matched(
            str(source.ids_path or source.path), source.ids, ids, settings.other_ids == "skip"
        )
        used = settings.read_names()
        if source.ids_path is not None:
            used["ids_sha256"] = sha256_file(source.ids_path)
        attributes: dict[str, str | int | float] = {
            "model": IMPORTED + source.path.suffix.removeprefix("."),
            "layer": "unknown",
            "weights_sha256": digest.result(),
            "params": json.dumps(described | {"file": used}),
            "corpus_sha256": corpus_sha256,
        }
    fill = partial(copy, source, places)
    datasets = {"features": ((source.shape[1],), source.dtype)}
    return FeatureJob(ids, datasets, attributes, [], fill)


def copy(source: Embeddings, places: npt.NDArray[np.int64], writer: FeatureWriter) -> None:
    """Write the missing rows, in the order of the file.

    Args:
        source: the file.
        places: (N,) the row of the corpus for each of its rows, -1 for none.
        writer: of the features.

    Raises:
        WorkbenchError: values that are not finite, or beyond what is stored, naming file and row.
    """
    wanted = np.zeros(len(writer.ids) + 1, bool)  # the last for rows of no place
    wanted[writer.missing] = True
    start, title = 0, f"reading {source.path.name}"
    with Progress(title, len(places), "rows") as progress:
        for block in source.blocks():
            rows = places[start : start + len(block)]
            kept = np.flatnonzero(wanted[rows])
            if len(kept):
                kept = kept[np.argsort(rows[kept])]  # rows that stand together are written at once
                chosen = block if len(kept) == len(block) and _ordered(kept) else block[kept]
                _write(source, writer, rows[kept], chosen, kept + start)
            start += len(block)
            progress.update(len(block))


def _ordered(rows: npt.NDArray[np.int64]) -> bool:
    return bool((np.diff(rows) == 1).all())


def _write(
    source: Embeddings,
    writer: FeatureWriter,
    rows: npt.NDArray[np.int64],
    values: Block,
    numbers: npt.NDArray[np.int64],
) -> None:
    """Write rows; numbers: (B,) theirs in the file, for the message."""
    try:
        writer.write(rows, features=values)
    except WorkbenchError as error:
        with np.errstate(over="ignore"):
            finite = np.isfinite(values.astype(source.dtype)).all(axis=1)
        if finite.all():
            raise
        bad = int(numbers[~finite].min())
        name = source.ids[bad]
        raise WorkbenchError(
            f"{source.path}, row {bad:,} ({name}): {error.message}", error.hint
        ) from None
