"""Search by exact products, by a graph and by lists of codes: time of a query, recall, memory.

`python -m benchmarks search` compares them on 20,000 vectors. The figures of docs/notes/scale.md:
`python -m benchmarks.bench_search FOLDER clustered 1000000 flat hnsw ivf_pq`, which keeps its
vectors in the folder; each kind has processes of its own, in which alone its memory can be told.
"""

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.common import Row, apart, memory, paired_ratio, seconds
from pipeline.search.approximate import build, opened, write
from pipeline.search.index import SHORTLIST, Index, best
from pipeline.search.params import HNSWConfig, IVFPQConfig
from pipeline.search.recall import recalls

WIDTH = 512
CENTRES, NOISE = 10_000, 0.7  # of clustered vectors; length of the noise beside a centre's 1
QUERIES = 200
BLOCK = 10_000
# What is built is searched with each: kinds by name, the first of several is built
SETTINGS: dict[str, list[HNSWConfig | IVFPQConfig]] = {
    "flat": [],
    "hnsw": [HNSWConfig(m=16, ef_construction=100, ef_search=ef) for ef in (128, 512)],
    "ivf_pq": [IVFPQConfig(lists=None, probes=probes, code_bytes=64) for probes in (16, 128)],
}


def rows() -> list[Row]:
    """Of each approximate kind: a query's time against that of exact search, and its recall."""
    found = []
    with TemporaryDirectory() as folder:
        vectors, queries = made(Path(folder), "clustered", 20_000, 200)
        exact = Index([str(row) for row in range(len(vectors))], vectors)
        for kind in ("hnsw", "ivf_pq"):
            parameters = SETTINGS[kind][-1]
            path = Path(folder) / f"{kind}.faiss"
            write(build(vectors, parameters, 0), path)
            near = Index(exact.ids, vectors, opened(path, *vectors.shape, parameters))
            pair = paired_ratio(
                lambda near=near: [searched(near, query) for query in queries],
                lambda: [searched(exact, query) for query in queries],
            )
            share = recalls(near, queries, [10])[0]
            work = f"search of 20,000 clustered {WIDTH}-d by {kind}, {QUERIES} queries"
            figure = f"{pair.of('exact search')}, recall@10 {share:.3f}"
            reached = pair.ratio <= 1 and share >= 0.9
            found.append(Row(work, figure, "<= 1x, recall >= 0.9", reached))
    return found


def searched(index: Index, query: np.ndarray) -> np.ndarray:
    """Scores of the ten nearest, as `vse search` finds them."""
    _, scores = index.candidates(query, SHORTLIST)
    return scores[best(scores, 10)]


def made(
    folder: Path, world: str, number: int, clusters: int = CENTRES
) -> tuple[np.ndarray, np.ndarray]:
    """Unit vectors in a file, mapped, and queries of the same world that are none of them."""
    path = folder / f"{world}_{number}.npy"
    generator = np.random.default_rng(0)
    centres = unit(generator.standard_normal((clusters, WIDTH), np.float32))

    def drawn(count: int) -> np.ndarray:
        noise = generator.standard_normal((count, WIDTH), np.float32)
        if world == "random":
            return unit(noise)
        noise *= NOISE / np.sqrt(WIDTH)
        return unit(centres[generator.integers(clusters, size=count)] + noise)

    queries = drawn(QUERIES)
    if not path.is_file():
        kept = np.lib.format.open_memmap(path, "w+", np.float32, (number, WIDTH))
        for start in range(0, number, BLOCK):
            kept[start : start + BLOCK] = drawn(min(BLOCK, number - start))
        kept.flush()
    return np.asarray(np.load(path, mmap_mode="r")), queries


def unit(vectors: np.ndarray) -> np.ndarray:
    """Rows of length 1."""
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def built(folder: Path, world: str, number: int, kind: str) -> dict[str, Any]:
    """What building an index costs."""
    vectors, _ = made(folder, world, number)
    path = folder / f"{world}_{number}_{kind}.faiss"
    wall, processor = seconds(lambda: write(build(vectors, SETTINGS[kind][0], 0), path))
    size, peak = path.stat().st_size >> 20, memory() >> 20
    took = {"processor_s": round(processor, 1), "wall_s": round(wall, 1)}
    return took | {"file_mb": size, "peak_mb": peak}


def queried(folder: Path, world: str, number: int, kind: str, place: int) -> dict[str, Any]:
    """What one of an index's settings finds, and in what time."""
    vectors, queries = made(folder, world, number)
    before = memory("RssAnon")
    nearest, found = None, {}
    if kind != "flat":
        parameters = SETTINGS[kind][place]
        path = folder / f"{world}_{number}_{kind}.faiss"
        nearest = opened(path, *vectors.shape, parameters)
        found = parameters.model_dump()
    index = Index([""] * number, vectors, nearest)
    took = [seconds(lambda q=query: searched(index, q)) for query in [*queries[:20], *queries]]
    found |= {"own_mb": memory("RssAnon") - before >> 20, "mapped_mb": memory("RssFile") >> 20}
    for name in ("processor", "wall"):
        times = [1000 * getattr(one, name) for one in took[20:]]
        middle, late = np.percentile(times, [50, 95])
        found |= {f"{name}_ms": round(middle, 2), f"{name}_p95_ms": round(late, 2)}
    if nearest is not None:
        one, ten = recalls(index, queries, [1, 10])
        found |= {"recall_1": round(one, 4), "recall_10": round(ten, 4)}
    return found


def main(folder: str, world: str, number: str, *kinds: str) -> None:
    """Print what is measured of each kind, a line for building it and one for each setting."""
    for kind in kinds:
        of = Path(folder), world, int(number), kind
        steps = [(queried, *of, place) for place in range(len(SETTINGS[kind]) or 1)]
        for step in [(built, *of), *steps] if SETTINGS[kind] else steps:
            found = {"world": world, "number": int(number), "kind": kind}
            print(json.dumps(found | apart(*step, threads=1)), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
