"""Search by exact products, by a graph and by lists of codes: time of a query, recall, building.

docs/notes/scale.md has figures of larger sets, which come with more CENTRES.
"""

from collections.abc import Iterator
from functools import partial

import numpy as np

from benchmarks.common import Row, clustered, cost, new_folder, paired_ratio, size
from pipeline.search.built import build_index, measure_recalls, open_index, write_index
from pipeline.search.index import SHORTLIST, Index, top_rows
from pipeline.search.params import HNSWConfig, IVFPQConfig

CENTRES, EACH, WIDTH = size((200, 100, 512), (20, 20, 64))
QUERIES = size(200, 5)
NOISE = 0.7  # of a vector, as long as that beside its centre
SETTINGS = {
    "hnsw": HNSWConfig(m=16, ef_construction=100, ef_search=512),
    "ivf_pq": IVFPQConfig(lists=None, probes=128, code_bytes=64),
}


def rows() -> Iterator[Row]:
    """Of each approximate kind: a query's time against that of exact search, and its recall."""
    drawn = clustered(CENTRES, EACH + 1, WIDTH, NOISE)[1].reshape(CENTRES, EACH + 1, WIDTH)
    queries, vectors = drawn[:QUERIES, 0], drawn[:, 1:].reshape(-1, WIDTH)
    exact = Index([str(row) for row in range(len(vectors))], vectors)
    with new_folder() as folder:
        for kind, settings in SETTINGS.items():
            path = folder / kind
            built, index = cost(partial(build_index, vectors, settings, 0))
            write_index(index, path)
            near = Index(exact.ids, vectors, open_index(path, settings))
            pair = paired_ratio(partial(searched, near, queries), partial(searched, exact, queries))
            share = measure_recalls(near, queries, [10])[0]
            yield Row(
                f"search of {len(vectors):,} clustered {WIDTH}-d by {kind}, {QUERIES} queries",
                f"{pair.of('exact search')}, recall@10 {share:.3f}; built in "
                f"{built.processor:.0f} s of processor time, {path.stat().st_size / 1e6:.0f} MB",
                "<= 1x, recall >= 0.9",
                (pair.ratio, share),
            )


def searched(index: Index, queries: np.ndarray) -> None:
    """Scores of the ten nearest of each query, as `vse search` finds them."""
    for query in queries:
        _, scores = index.candidates(query, SHORTLIST)
        top_rows(scores, 10)
