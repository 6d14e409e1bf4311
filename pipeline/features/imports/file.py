"""Vectors in files of other tools: matched with the corpus, then copied block by block."""

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pipeline.features.feature_file import IMPORTED, FeatureWriter
from pipeline.features.imports import Wanted
from pipeline.features.shards import FeatureJob
from pipeline.features.vector_files import Source, open_source
from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.runtime.files import files_digest, sha256_file
from pipeline.runtime.process import Progress, say
from pipeline.runtime.section import EmbeddingFileConfig

MOST_REPEATED = 0.1  # of the vectors: more are no accident


def import_job(
    settings: EmbeddingFileConfig,
    wanted: Wanted,
    corpus_sha256: str,
    described: dict[str, Any],
) -> FeatureJob:
    """The job that stores vectors made elsewhere, in the order of the corpus.

    Args:
        settings: where they lie.
        wanted: N images or captions.
        corpus_sha256: digest of the corpus.
        described: what the feature file says of the settings, JSON-able.

    Returns:
        The job that writes (N, D): float16 where the vectors are, else float32. The values depend
        on the digest of the files.

    Raises:
        WorkbenchError: for all that shows before values are read.
    """
    path = Path(settings.path or "")
    with ThreadPoolExecutor(1) as pool:  # the digest of a large file takes as long as its ids
        digest = pool.submit(sha256_file, path) if path.is_file() else None
        source = open_source(settings, wanted)
        if source.files != [path] or digest is None:
            digest = pool.submit(files_digest, source.files)
        names = dict(settings.read_names())
        if source.ids is not None:
            names["ids_sha256"] = sha256_file(source.ids)
        attributes: dict[str, str | int | float] = {
            "model": IMPORTED + source.kind,
            "layer": "unknown",
            "weights_sha256": digest.result(),
            "params": json.dumps(described | {"file": names}),
            "corpus_sha256": corpus_sha256,
        }
    # of float64 is stored what float32 can hold
    dtype = "float16" if source.vectors.dtype.itemsize == 2 else "float32"
    return FeatureJob(
        ids=wanted.ids,
        datasets={"features": ((source.vectors.shape[1],), dtype)},
        attributes=attributes,
        machine=[source.explained] if source.explained else [],
        fill=partial(copy_missing, source),
    )


def copy_missing(source: Source, writer: FeatureWriter) -> None:
    """Write the rows that a feature file misses, in the order of the files.

    Args:
        source: the vectors, and which row of the corpus each is.
        writer: of the feature file.

    Raises:
        WorkbenchError: for vectors that are not finite or too large for the type they are stored
            in.
    """
    is_missing = np.zeros(len(writer.ids) + 1, bool)  # the last is that of place -1: no row
    is_missing[writer.missing] = True
    digests = np.zeros(len(writer.ids), np.uint64)  # of the vectors; of a million 8 MB
    empty: list[int] = []
    start = 0
    with Progress(f"reading {source.path.name}", len(source.places), "rows") as progress:
        for block in source.vectors.blocks():
            places = source.places[start : start + len(block)]
            inside = places >= 0
            empty += places[inside & ~block.any(axis=1)].tolist()
            digests[places[inside]] = [_digest(row) for row in block[inside]]
            kept = np.flatnonzero(is_missing[places])
            if len(kept):
                kept = kept[np.argsort(places[kept])]  # rows that stand together: written at once
                try:
                    writer.write(places[kept], features=block[kept])
                except WorkbenchError as error:
                    raise WorkbenchError(f"{source.path}: {error.message}", error.hint) from None
            start += len(block)
            progress.update(len(block))
    _say_doubtful(source, writer.ids, empty, digests)


def _digest(vector: npt.NDArray[np.floating[Any]]) -> int:
    """A number that equal vectors share, and no others by any chance that matters."""
    return int.from_bytes(blake2b(vector.tobytes(), digest_size=8).digest(), "little")


def _say_doubtful(
    source: Source,
    ids: Sequence[str],
    empty: Sequence[int],
    digests: npt.NDArray[np.uint64],
) -> None:
    """Say which vectors look as if they had never been computed: zeros, as a file has them whose
    place was kept free, and many that are those of others, as a last batch that is written again.
    A few may be equal photographs or equal captions."""
    firsts = np.unique(digests, return_index=True)[1]
    repeated = np.setdiff1d(np.arange(len(ids)), [*firsts, *empty])
    if empty:
        say(
            f"{source.path}: {len(empty):,} of {len(ids):,} vectors are zeros: "
            f"{listing((ids[place] for place in empty), 3)}; were they computed?"
        )
    if len(repeated) > MOST_REPEATED * len(ids):
        say(
            f"{source.path}: {len(repeated):,} of {len(ids):,} vectors are equal to another one, "
            f"as that of {ids[int(repeated[0])]}; were they computed?"
        )
