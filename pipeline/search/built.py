"""Approximate indexes of a score file's embeddings: built by faiss, the same every time, and kept
on the disk with what says that they belong to it.

Both kinds find vectors of large inner products. A graph (HNSW) keeps the vectors themselves, lists
of codes (IVF-PQ) a few bytes of each; what either finds is scored exactly by the stored embeddings
afterwards. faiss is an extra, which exact search does without.

A folder holds a file of faiss for the images and one for the captions of each split, and
index.json, written last: what they were built from and with, their digests, and their recall
against exact search. Ids and vectors are those of the score file, whose digests are named.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.features.groups import GroupFile
from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.runtime.files import atomic_path, fingerprint, sha256_file, write_json
from pipeline.runtime.process import Progress
from pipeline.runtime.text import Values
from pipeline.search.index import KINDS, SHORTLIST, Index, Nearest, read_index, top_rows
from pipeline.search.params import HNSWConfig, IVFPQConfig, SearchConfig

Parameters = HNSWConfig | IVFPQConfig

CODE_BITS = 8  # of each byte of a code
CODES = 1 << CODE_BITS  # centres of each, which have to be learnt from as many vectors
POINTS_PER_LIST = 64  # vectors that k-means learns a list's centre from; faiss asks for 39 to 256
ADDED = 1 << 14  # vectors between two lines of progress
INDEX_FILE = "index.json"
FORMAT = 1
QUERIES = 1000  # recall is measured with, at most
BLOCK = 64  # of these scored together
MADE_FROM = ("checkpoint_sha256", "images_sha256", "captions_sha256")  # as the score file says


def write_indexes(
    folder: Path, scores: Path, model: str, settings: SearchConfig, seed: int
) -> Values:
    """Build the indexes of all embeddings in a score file; equal embeddings give equal bytes.

    Args:
        folder: to write to.
        scores: the score file.
        model: whose scores these must be.
        settings: `search` of params.yaml, with another index than flat.
        seed: of the index and of the queries that recall is measured with.

    Returns:
        The content of index.json: each of its `parts` has digests, and its recall with so many
        `queries` of the other kind; `exact` names sets with too few vectors, which exact search
        takes.

    Raises:
        WorkbenchError: the scores are another model's, or every set has too few vectors.
    """
    file = GroupFile(scores)
    parameters = settings.parameters
    if file.attributes.get("model") != model:
        raise WorkbenchError(f"{scores}: not scores of {model}")
    made_from = {name: str(file.attributes.get(name, "")) for name in MADE_FROM}
    (folder / INDEX_FILE).unlink(missing_ok=True)  # an earlier one would describe half of this
    parts: list[Values] = []
    exact: list[str] = []
    for split in sorted(file.layouts):
        weights = made_from["checkpoint_sha256"]
        sides = {kind: read_index(scores, split, kind, weights) for kind in KINDS}
        for kind, other in zip(KINDS, reversed(KINDS), strict=True):
            if len(sides[kind].ids) < least_vectors(parameters):
                exact.append(f"{split}_{kind}")
                continue
            path = folder / f"{split}_{kind}.faiss"
            others = sides[other].embeddings
            built = _build_part(path, sides[kind], others, parameters, seed)
            parts.append(
                {"split": split, "kind": kind} | digests_of_rows(file, split, kind) | built
            )
    if not parts:
        least = f"{settings.index} needs {least_vectors(parameters):,} vectors"
        raise WorkbenchError(
            f"{scores}: {least}, and every set has fewer",
            "set search.index to hnsw, or to flat, which is fast for so few",
        )
    content = {
        "format": FORMAT,
        "model": model,
        **made_from,
        "index": settings.index,
        "parameters": parameters.model_dump(),
        "seed": seed,
        "faiss": import_faiss().__version__,
        "shortlist": SHORTLIST,
        "parts": parts,
        "exact": exact,
    }
    write_json(folder / INDEX_FILE, content | {"sha256": fingerprint(**content)})
    return content


def _build_part(
    path: Path, side: Index, others: np.ndarray, parameters: Parameters, seed: int
) -> Values:
    """Write the index of one set of vectors, and measure its recall with some of the others."""
    from threadpoolctl import threadpool_limits

    write_index(build_index(side.embeddings, parameters, seed), path)
    index = replace(side, nearest=open_index(path, parameters))
    count = min(len(others), QUERIES)
    rows = np.random.default_rng(seed).choice(len(others), count, replace=False)
    queries = others[np.sort(rows)]
    with threadpool_limits(limits=1):
        at_1, at_10 = measure_recalls(index, queries, [1, 10])
    number, width = side.embeddings.shape
    return {
        "number": number,
        "width": width,
        "sha256": sha256_file(path),
        "queries": count,
        "recall_at_1": round(at_1, 4),
        "recall_at_10": round(at_10, 4),
    }


def measure_recalls(
    index: Index, queries: np.ndarray, tops: Sequence[int], count: int = SHORTLIST
) -> list[float]:
    """How many of the exact nearest an index finds. A vector as near as the last of the exact ones
    counts.

    Args:
        index: of N vectors, with `nearest`.
        queries: (Q, K) float32.
        tops: how many of the nearest are looked at, ascending or not.
        count: how many the index is asked for.

    Returns:
        Mean share (0 to 1) over the queries, by `tops`.
    """
    assert index.nearest is not None
    shares = np.zeros(len(tops))
    for start in range(0, len(queries), BLOCK):
        block = queries[start : start + BLOCK]
        scores = index.embeddings @ block.T  # (N, B)
        for column, rows in enumerate(index.nearest(block, count)):
            line = np.ascontiguousarray(scores[:, column])
            near = line[np.sort(rows[rows >= 0])]
            near = near[top_rows(near, max(tops))]
            exact = line[top_rows(line, max(tops))]
            shares += [(near[:n] >= exact[:n][-1]).sum() / len(exact[:n]) for n in tops]
    return [float(share) for share in shares / len(queries)]


def digests_of_rows(file: GroupFile, split: str, kind: str) -> dict[str, str]:
    """Digests of the ids and vectors that the rows of an index stand for.

    Args:
        file: the score file.
        split: of the corpus.
        kind: image or caption.

    Returns:
        SHA-256 by the keys of index.json.
    """
    names = {"ids_sha256": f"{kind}_ids", "embeddings_sha256": f"{kind}_embeddings"}
    return {key: str(file.layouts[split][name].sha256) for key, name in names.items()}


class BuiltIndexes:
    """The indexes that `write_indexes` has built, held against score file and settings.

    Args:
        folder: that was written to.
        scores: the score file.
        model: whose scores these are.
        settings: `search` of params.yaml.

    Raises:
        WorkbenchError: index.json is damaged, or was built for another model or with other
            settings.
    """

    def __init__(self, folder: Path, scores: Path, model: str, settings: SearchConfig) -> None:
        self.folder = folder
        self.file = GroupFile(scores)
        self.settings = settings
        self.remedy = f"build it again: dvc repro build_index@{model}"
        content = self._read(folder / INDEX_FILE)
        wanted = {"model": model, "index": settings.index}
        for name, value in (wanted | {"parameters": settings.parameters.model_dump()}).items():
            if content[name] != value:
                raise WorkbenchError(
                    f"{folder / INDEX_FILE}: its {name} is {content[name]}, not {value}",
                    self.remedy,
                )
        self.parts = {f"{part['split']}_{part['kind']}": part for part in content["parts"]}

    def attached(self, index: Index, split: str, kind: str) -> Index:
        """An exact index with the built one that finds its nearest.

        Args:
            index: of all embeddings.
            split: of the corpus.
            kind: image or caption.

        Returns:
            `index` itself where none was built for so few vectors.

        Raises:
            WorkbenchError: the built one is missing, damaged, or of other embeddings.
        """
        part = self.parts.get(f"{split}_{kind}")
        if part is None:
            return index
        path = self.folder / f"{split}_{kind}.faiss"
        if not digests_of_rows(self.file, split, kind).items() <= part.items():
            raise WorkbenchError(f"{path}: an index of other {kind} embeddings", self.remedy)
        if not path.is_file() or sha256_file(path) != part["sha256"]:
            raise WorkbenchError(f"{path}: missing or damaged: not the file built", self.remedy)
        return replace(index, nearest=open_index(path, self.settings.parameters))

    def _read(self, path: Path) -> Values:
        try:
            content: Values = json.loads(path.read_bytes())
            if content["format"] != FORMAT:
                message = f"{path}: format {content['format']}; this version reads {FORMAT}"
                raise WorkbenchError(message, self.remedy)
            if content.pop("sha256") != fingerprint(**content):
                raise ValueError("its sha256 is another")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise WorkbenchError(f"{path}: damaged: {error}", self.remedy) from None
        return content


def import_faiss() -> Any:
    """The module faiss; WorkbenchError where it is not installed."""
    try:
        import faiss
    except ImportError:
        raise WorkbenchError(
            "faiss is not installed, and search.index is not flat",
            "pip install --editable '.[search]'",
        ) from None
    return faiss


def least_vectors(parameters: Parameters) -> int:
    """The number of vectors that an index is built from at least."""
    if isinstance(parameters, HNSWConfig):
        return 1
    return max(CODES, parameters.lists or 0)


def build_index(vectors: np.ndarray, parameters: Parameters, seed: int) -> Any:
    """A faiss index of inner products, built by one thread: equal vectors give equal bytes.

    Args:
        vectors: (N, K) float32, N at least `needed(parameters)`.
        parameters: of the kind of index.
        seed: of the graph's levels, or of k-means.

    Returns:
        The index of faiss.
    """
    from threadpoolctl import threadpool_limits

    faiss = import_faiss()
    number, width = vectors.shape
    # several insert into a graph in an order of their own
    with threadpool_limits(limits=1):
        if isinstance(parameters, HNSWConfig):
            index = faiss.IndexHNSWFlat(width, parameters.m, faiss.METRIC_INNER_PRODUCT)
            index.hnsw.rng = faiss.RandomGenerator(seed)
            index.hnsw.efConstruction = parameters.ef_construction
        else:
            index = _trained(faiss, vectors, parameters, seed)
        with Progress("index", number, "vectors") as progress:
            for start in range(0, number, ADDED):
                index.add(vectors[start : start + ADDED])
                progress.update(min(ADDED, number - start))
    return index


def _trained(faiss: Any, vectors: np.ndarray, parameters: IVFPQConfig, seed: int) -> Any:
    number, width = vectors.shape
    code = parameters.code_bytes
    if width % code:
        allowed = [str(n) for n in range(1, width + 1) if width % n == 0]
        raise WorkbenchError(
            f"search.ivf_pq.code_bytes = {code}: must divide the width of the embeddings, {width}",
            f"set it to one of {listing(allowed)}",
        )
    lists = parameters.lists or round(math.sqrt(number))
    quantiser = faiss.IndexFlatIP(width)
    metric = faiss.METRIC_INNER_PRODUCT
    index = faiss.IndexIVFPQ(quantiser, width, lists, code, CODE_BITS, metric)
    for clustering in (index.cp, index.pq.cp):
        clustering.seed = seed % (1 << 31)  # a C int
        clustering.min_points_per_centroid = 1  # no warning of a small corpus
    index.cp.max_points_per_centroid = POINTS_PER_LIST
    index.train(vectors)
    return index


def write_index(index: Any, path: Path) -> None:
    """Write an index atomically.

    Args:
        index: of faiss.
        path: the file.
    """
    faiss = import_faiss()
    with atomic_path(path) as temporary, open(temporary, "wb") as file:
        # Python's own write: what the disk refuses is an OSError, not faiss's text
        faiss.write_index(index, faiss.PyCallbackIOWriter(file.write))


def open_index(path: Path, parameters: Parameters) -> Nearest:
    """An index that was written, memory-mapped, as a function that finds the nearest.

    Args:
        path: the file.
        parameters: how far it searches.

    Returns:
        From vectors (Q, K) and a count to rows (Q, count), -1 where fewer were found.
    """
    faiss = import_faiss()
    index = faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC)
    if isinstance(parameters, HNSWConfig):
        index.hnsw.efSearch = parameters.ef_search
    else:
        index.nprobe = parameters.probes

    def nearest(vectors: np.ndarray, count: int) -> np.ndarray:
        rows: np.ndarray = index.search(vectors, min(count, index.ntotal))[1]
        return rows

    return nearest
