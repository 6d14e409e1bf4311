"""Importing a file of vectors: matched with the corpus, then copied block by block."""

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pipeline.arrays.file import Array
from pipeline.arrays.formats import open_arrays
from pipeline.arrays.ids import Ids, read_ids
from pipeline.embeddings import IMPORTED
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.files import sha256_file
from pipeline.runtime.process import Progress, say
from pipeline.runtime.section import EmbeddingFileConfig
from pipeline.runtime.text import Problems, printable
from pipeline.storage.shards import FeatureJob
from pipeline.storage.writer import FeatureWriter

MAX_DIM = 1 << 16  # width of a vector
MAX_ROWS = 1 << 25  # of a file; more is taken for damage
NAMES = "name the arrays of ids and vectors under `file` in params.yaml"
MATCHING = (
    "ids are compared letter by letter with image_id and caption_id of the corpus; other_ids: skip "
    "leaves out rows that it does not have"
)


class Embeddings(NamedTuple):
    """A file of vectors (N, D) of floats, and the ids of its rows."""

    path: Path
    vectors: Array
    ids: Ids


def open_embeddings(settings: EmbeddingFileConfig) -> Embeddings:
    """The file that the settings name; WorkbenchError for all that shows before values are read."""
    path = Path(settings.path or "")
    file = open_arrays(path)
    vectors = file.array(settings.features, NAMES)
    _check(vectors)
    ids = read_ids(file, settings.ids)
    if ids is None:
        raise WorkbenchError(
            f"{path}: no ids",
            f"put them into an array {settings.ids} of the file, or beside it into one of "
            f"{path.stem}.ids.txt, {path.stem}.ids.json, {path.stem}.ids.npy",
        )
    if len(ids.names) != vectors.shape[0]:
        raise WorkbenchError(
            f"{ids.path or path}: {len(ids.names):,} ids for {vectors.shape[0]:,} vectors"
        )
    return Embeddings(path, vectors, ids)


def _check(vectors: Array) -> None:
    place, shape, dtype = vectors.place, vectors.shape, vectors.dtype
    if dtype.kind != "f" or dtype.itemsize > 8:
        raise WorkbenchError(
            f"{place}: values of type {dtype}; allowed are float16, float32 and float64",
            "integers are not converted, since their scale is not in the file: save them as "
            "float32",
        )
    if len(shape) != 2 or not 0 < shape[0] <= MAX_ROWS or not 0 < shape[1] <= MAX_DIM:
        raise WorkbenchError(
            f"{place}: shape {shape}; expected are vectors (N, D), N at most {MAX_ROWS:,} and D "
            f"at most {MAX_DIM:,}"
        )


def import_job(
    settings: EmbeddingFileConfig,
    ids: Sequence[str],
    corpus_sha256: str,
    described: dict[str, Any],
) -> FeatureJob:
    """Vectors of a file that was made elsewhere, in the order of the corpus. The file is told by
    its digest. ids: N, of the corpus; described: what the file of features says of the settings."""
    with ThreadPoolExecutor(1) as pool:
        digest = pool.submit(sha256_file, settings.path or "")
        source = open_embeddings(settings)
        skip, ids_file = settings.other_ids == "skip", source.ids.path or source.path
        places = matched(str(ids_file), source.ids.names, ids, skip, MATCHING)
        used = settings.read_names()
        if source.ids.path is not None:
            used["ids_sha256"] = sha256_file(source.ids.path)
        attributes: dict[str, str | int | float] = {
            "model": IMPORTED + source.path.suffix.removeprefix("."),
            "layer": "unknown",
            "weights_sha256": digest.result(),
            "params": json.dumps(described | {"file": used}),
            "corpus_sha256": corpus_sha256,
        }
    fill = partial(copy, source, places)
    # of float64 is stored what float32 can hold
    dtype = "float16" if source.vectors.dtype.itemsize == 2 else "float32"
    datasets = {"features": ((source.vectors.shape[1],), dtype)}
    return FeatureJob(ids, datasets, attributes, [], fill)


def matched(
    place: str, found: Sequence[str], wanted: Sequence[str], skip: bool, hint: str
) -> npt.NDArray[np.int64]:
    """(N,) rows of the corpus, whose M ids are `wanted`, for N ids in a file; -1 for those that are
    left out (skip). WorkbenchError for all ids at once that occur twice, that lack a row, or that
    the corpus does not have."""
    if list(found) == list(wanted):
        return np.arange(len(found))
    rows = {name: row for row, name in enumerate(wanted)}
    places = np.fromiter((rows.get(name, -1) for name in found), np.int64, len(found))
    others, inside = np.flatnonzero(places < 0), np.flatnonzero(places >= 0)
    counts = np.bincount(places[inside], minlength=len(wanted))
    again = inside[counts[places[inside]] > 1]
    firsts = np.unique(places[again], return_index=True)[1]
    missing = np.flatnonzero(counts == 0).tolist()
    problems = Problems(place)
    problems.add("ids more than once", _rows(found, np.delete(again, firsts)))
    problems.add("ids of the corpus without a row", [wanted[row] for row in missing])
    if not skip:
        problems.add("ids that are not in the corpus", _rows(found, others))
    problems.raise_if_any(hint)
    if len(others):
        say(f"{place}: left out {len(others):,} rows of ids that are not in the corpus")
    return places


def _rows(names: Sequence[str], rows: npt.NDArray[np.int64]) -> list[str]:
    return [f"{printable(names[row][:100])} (row {row:,})" for row in rows.tolist()]


def copy(source: Embeddings, places: npt.NDArray[np.int64], writer: FeatureWriter) -> None:
    """Write the missing rows, in the order of the file. places: (N,) the row of the corpus for
    each of its rows, -1 for none."""
    wanted = np.zeros(len(writer.ids) + 1, bool)  # the last for rows of no place
    wanted[writer.missing] = True
    start, title = 0, f"reading {source.path.name}"
    with Progress(title, len(places), "rows") as progress:
        for block in source.vectors.blocks():
            rows = places[start : start + len(block)]
            kept = np.flatnonzero(wanted[rows])
            if len(kept):
                kept = kept[np.argsort(rows[kept])]  # rows that stand together are written at once
                try:
                    writer.write(rows[kept], features=block[kept])
                except WorkbenchError as error:
                    raise WorkbenchError(f"{source.path}: {error.message}", error.hint) from None
            start += len(block)
            progress.update(len(block))
