"""CCA at full size, and PCA at full width: the latter estimated from parts that are measured.

Both run in processes of their own, so that their peak memory is theirs; random rows are made block
by block and never held together. CCA's time includes making them.
"""

import time
from collections.abc import Iterator

import numpy as np
from sklearn.decomposition import IncrementalPCA

from benchmarks.common import Row, apart, memory, paired_ratio, seconds
from models.cca.fit import fit_cca
from pipeline.statistics.covariance import CHUNK, Covariance
from pipeline.statistics.projection import fit_projection, leading_eigenvectors

PAIRS, IMAGE, SENTENCE, DIRECTIONS = 30_000, 4096, 6000, 1024
ROWS, WIDTH, COMPONENTS = 150_000, 18_000, 6000
SMALLER = (3000, 4500)  # widths at which eigenvectors are measured, a third of them kept
SLICE_ROWS, SLICE_WIDTH, SLICE_COMPONENTS, SLICE_BLOCK = 8192, 1200, 400, 1024


def rows() -> list[Row]:
    """CCA's time and memory, PCA's memory and estimated time, PCA against IncrementalPCA."""
    took, making, peak = apart(_cca, threads=2)
    work = f"CCA, {PAIRS:,} x {IMAGE:,} x {SENTENCE:,}, {DIRECTIONS:,} directions"
    figure = f"{took:.0f} s ({making:.0f} s of it making rows)"
    return [
        Row(work, figure, "< 60 s", took < 60),
        Row(f"{work}: peak memory", f"{peak / 1e9:.1f} GB", "< 6 GB", peak < 6e9),
        _pca_row(),
        _slice_row(),
    ]


def _pca_row() -> Row:
    """The covariance is measured at full width on two chunks, the eigenvectors at smaller widths.

    Eigenvectors take time in proportion to the cube of the width. While they are sought there are
    the matrix, float64 vectors, and float32 components with the copy that their signs need.
    """
    chunk, before, measured = apart(_gram, threads=2)
    (small, large), grown = apart(_eigen, threads=2)
    covariance = chunk * ROWS / CHUNK / 60
    vectors = large * (WIDTH / SMALLER[1]) ** 3 / 60
    peak = max(measured, before + _eigen_bytes(WIDTH, COMPONENTS)) / 1e9
    exact = grown / _eigen_bytes(SMALLER[1], SMALLER[1] // 3)
    return Row(
        f"PCA {WIDTH:,} -> {COMPONENTS:,} of {ROWS:,} rows: peak memory",
        f"{peak:.1f} GB ({measured / 1e9:.1f} GB measured for two chunks of the covariance at "
        f"full width; arrays of the eigenvectors' phase added up, which at {SMALLER[1]:,} gives "
        f"{exact:.2f} of it measured); time estimated: {covariance:.0f} min for the covariance, "
        f"from those chunks, and {vectors:.0f} min for the eigenvectors, by the cube of the width "
        f"from {large:.1f} s at {SMALLER[1]:,} ({small:.1f} s at {SMALLER[0]:,})",
        "< 8 GB",
        peak < 8,
    )


def _slice_row() -> Row:
    """The same components by scikit-learn's streaming form, rows in memory."""
    blocks = list(_decaying(SLICE_ROWS, SLICE_WIDTH, SLICE_BLOCK))
    kept = {}

    def ours() -> None:
        kept["ours"] = fit_projection(blocks, SLICE_COMPONENTS, SLICE_ROWS).explained

    def theirs() -> None:
        model = IncrementalPCA(SLICE_COMPONENTS)
        for block in blocks:
            model.partial_fit(block)
        kept["theirs"] = model.explained_variance_ratio_.sum()

    pair = paired_ratio(ours, theirs, runs=3)
    figure = f"{pair.faster('IncrementalPCA')}, variance explained {100 * kept['ours']:.2f} %, "
    figure += f"{100 * kept['theirs']:.2f} %"
    work = f"PCA {SLICE_WIDTH:,} -> {SLICE_COMPONENTS:,} of {SLICE_ROWS:,} rows"
    return Row(work, figure, ">= 5x", 1 / pair.ratio >= 5, ours)


def _cca() -> tuple[float, float, int]:
    """Seconds of the whole fit, and of making its rows alone, and the peak."""
    took = seconds(lambda: fit_cca(_pairs(), DIRECTIONS, 1e-4, PAIRS)).wall
    peak = memory()
    return took, seconds(lambda: [None for _ in _pairs()]).wall, peak


def _gram() -> tuple[float, int, int]:
    """Seconds of one chunk of the covariance at full width, after a first that warms memory up;
    bytes before and at most."""
    before, took = memory("VmRSS"), 0.0
    covariance = Covariance(["rows"], [WIDTH], 2 * CHUNK)
    for number, block in enumerate(_decaying(2 * CHUNK, WIDTH, SLICE_BLOCK)):
        start = time.perf_counter()
        covariance.add((block,))
        took += (time.perf_counter() - start) * (number >= CHUNK // SLICE_BLOCK)
    covariance.finish()
    return took, before, memory()


def _eigen() -> tuple[list[float], int]:
    """Seconds of the eigenvectors at both smaller widths, and how much memory the larger took."""
    took = []
    for width in SMALLER:
        before = memory("VmRSS")
        covariance = Covariance(["rows"], [width], 2 * width)
        for block in _decaying(2 * width, width, SLICE_BLOCK):
            covariance.add((block,))
        matrix = covariance.finish()[1]
        del covariance, block
        start = time.perf_counter()
        leading_eigenvectors(matrix, width // 3)
        took.append(time.perf_counter() - start)
    return took, memory() - before


def _eigen_bytes(width: int, components: int) -> int:
    return 8 * width * width + (8 + 4 + 4) * width * components


def _pairs() -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Image features and sentence vectors that share their first columns in part."""
    rng = np.random.default_rng(0)
    for start in range(0, PAIRS, CHUNK):
        count = min(CHUNK, PAIRS - start)
        image = rng.standard_normal((count, IMAGE), dtype=np.float32)
        sentence = rng.standard_normal((count, SENTENCE), dtype=np.float32)
        sentence[:, :DIRECTIONS] += image[:, :DIRECTIONS]
        yield image, sentence


def _decaying(count: int, width: int, block: int) -> Iterator[np.ndarray]:
    """Blocks of rows whose variances fall as features' do; a flat spectrum would be easier."""
    rng = np.random.default_rng(0)
    scale = np.arange(1, width + 1, dtype=np.float32) ** np.float32(-0.6)
    for start in range(0, count, block):
        size = (min(block, count - start), width)
        yield rng.standard_normal(size, dtype=np.float32) * scale
