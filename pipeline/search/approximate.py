"""Approximate nearest neighbours by faiss: built the same every time, read where they lie.

Both kinds find vectors of large inner products. A graph (HNSW) keeps the vectors themselves, lists
of codes (IVF-PQ) a few bytes of each; what either finds is scored exactly by the stored embeddings
afterwards. faiss is an extra, which exact search does without.
"""

import math
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.runtime.files import atomic_path
from pipeline.runtime.process import Progress
from pipeline.search.index import Nearest
from pipeline.search.params import HNSWConfig, IVFPQConfig

Parameters = HNSWConfig | IVFPQConfig

CODE_BITS = 8  # of each byte of a code
CODES = 1 << CODE_BITS  # centres of each, which have to be learnt from as many vectors
POINTS_PER_LIST = 64  # vectors that k-means learns a list's centre from; faiss asks for 39 to 256
ADDED = 1 << 14  # vectors between two lines of progress


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
    sizes = width, lists, code, CODE_BITS
    index = faiss.IndexIVFPQ(quantiser, *sizes, faiss.METRIC_INNER_PRODUCT)
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
