"""Importing vectors that were made elsewhere: matched with the corpus, then copied by blocks."""

import json
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.embeddings import IMPORTED
from pipeline.embeddings.source import Source, Wanted, open_source
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.files import files_digest, sha256_file
from pipeline.runtime.process import Progress
from pipeline.runtime.section import EmbeddingFileConfig
from pipeline.storage.features import FeatureWriter
from pipeline.storage.shards import FeatureJob


def import_job(
    settings: EmbeddingFileConfig,
    wanted: Wanted,
    corpus_sha256: str,
    described: dict[str, Any],
) -> FeatureJob:
    """Vectors that were made elsewhere, in the order of the corpus; told by the file's digest.

    Args:
        settings: where they lie.
        wanted: N images or captions.
        corpus_sha256: digest of the corpus.
        described: what the file of features says of the settings.

    Returns:
        The job that writes (N, D) float16 where the vectors are, else float32.

    Raises:
        WorkbenchError: for all that shows before values are read.
    """
    path = Path(settings.path or "")
    with ThreadPoolExecutor(1) as pool:
        digest = pool.submit(sha256_file, path) if path.is_file() else None
        source = open_source(settings, wanted)
        if source.files != [path] or digest is None:
            digest = pool.submit(files_digest, source.files)
        used = dict(settings.read_names())
        if source.ids is not None:
            used["ids_sha256"] = sha256_file(source.ids)
        attributes: dict[str, str | int | float] = {
            "model": IMPORTED + source.kind,
            "layer": "unknown",
            "weights_sha256": digest.result(),
            "params": json.dumps(described | {"file": used}),
            "corpus_sha256": corpus_sha256,
        }
    # of float64 is stored what float32 can hold
    dtype = "float16" if source.vectors.dtype.itemsize == 2 else "float32"
    datasets = {"features": ((source.vectors.shape[1],), dtype)}
    explained = [source.explained] if source.explained else []
    return FeatureJob(wanted.ids, datasets, attributes, explained, partial(copy, source))


def copy(source: Source, writer: FeatureWriter) -> None:
    """Write the missing rows, in the order of the file."""
    wanted = np.zeros(len(writer.ids) + 1, bool)  # the last for rows of no place
    wanted[writer.missing] = True
    start, title = 0, f"reading {source.path.name}"
    with Progress(title, len(source.places), "rows") as progress:
        for block in source.vectors.blocks():
            rows = source.places[start : start + len(block)]
            kept = np.flatnonzero(wanted[rows])
            if len(kept):
                kept = kept[np.argsort(rows[kept])]  # rows that stand together are written at once
                try:
                    writer.write(rows[kept], features=block[kept])
                except WorkbenchError as error:
                    raise WorkbenchError(f"{source.path}: {error.message}", error.hint) from None
            start += len(block)
            progress.update(len(block))
