"""CCA at full size, and PCA at a third of its size, from which the whole is estimated.

Both run in processes of their own, so that their peak memory is theirs; random rows are made block
by block and never held together. Times include making them.
"""

from collections.abc import Iterator
from functools import partial

import numpy as np
from sklearn.decomposition import IncrementalPCA

from benchmarks.common import Cost, Row, apart, cost, memory, paired_ratio, seconds, size
from models.cca import fit_cca
from pipeline.features.statistics.covariance import CHUNK
from pipeline.features.statistics.projection import fit_projection

PAIRS, IMAGE, SENTENCE, DIRECTIONS = size((30_000, 4096, 6000, 1024), (200, 8, 9, 4))
ROWS, WIDTH, COMPONENTS = size((50_000, 6000, 2000), (100, 10, 4))  # a third of each
SLICE_ROWS, SLICE_WIDTH, SLICE_COMPONENTS = size((8192, 1200, 400), (100, 12, 4))
BLOCK = 1024


def rows() -> Iterator[Row]:
    took, making, peak = apart(cca)
    work = f"CCA, {PAIRS:,} x {IMAGE:,} x {SENTENCE:,}, {DIRECTIONS:,} directions"
    yield Row(work, f"{took:.0f} s ({making:.0f} s of it making rows)", "< 60 s", took)
    yield Row(f"{work}: peak memory", f"{peak / 1e9:.1f} GB", "< 6 GB", peak / 1e9)
    yield pca_row()
    yield slice_row()


def cca() -> tuple[float, float, int]:
    """Seconds of the whole fit, and of making its rows alone, and the peak."""
    took = seconds(lambda: fit_cca(pairs(), DIRECTIONS, 1e-4, PAIRS)).wall
    return took, seconds(lambda: [None for _ in pairs()]).wall, memory()


def pairs() -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Image features and sentence vectors that share their first columns in part."""
    rng = np.random.default_rng(0)
    for start in range(0, PAIRS, CHUNK):
        count = min(CHUNK, PAIRS - start)
        image = rng.standard_normal((count, IMAGE), dtype=np.float32)
        sentence = rng.standard_normal((count, SENTENCE), dtype=np.float32)
        sentence[:, :DIRECTIONS] += image[:, :DIRECTIONS]
        yield image, sentence


def pca_row() -> Row:
    """Measured at a third of the rows, the width and the components, estimated from that.

    Rows are held in chunks, so that no bytes grow faster than the square of the width. Seconds of
    the covariance grow with the rows times that square, those of the eigenvectors with its cube.
    """
    took = apart(pca)
    peak = 9 * took.bytes / 1e9
    return Row(
        f"PCA {3 * WIDTH:,} -> {3 * COMPONENTS:,} of {3 * ROWS:,} rows: peak memory",
        f"{peak:.1f} GB, as bytes grow at most with the square of the width: 9 times "
        f"{took.bytes / 1e9:.2f} GB, measured for {WIDTH:,} -> {COMPONENTS:,} of {ROWS:,} rows; "
        f"time estimated: {27 * took.wall / 60:.0f} min, by the cube from {took.wall:.0f} s",
        "< 8 GB",
        peak,
    )


def pca() -> Cost:
    return cost(lambda: fit_projection(decaying(ROWS, WIDTH), COMPONENTS, ROWS))[0]


def slice_row() -> Row:
    """The same components by scikit-learn's streaming form, rows in memory."""
    blocks = list(decaying(SLICE_ROWS, SLICE_WIDTH))
    theirs = IncrementalPCA(SLICE_COMPONENTS, batch_size=BLOCK)
    ours = partial(fit_projection, blocks, SLICE_COMPONENTS, SLICE_ROWS)
    pair = paired_ratio(ours, partial(theirs.fit, np.concatenate(blocks)), runs=3)
    explained = ours().explained, theirs.explained_variance_ratio_.sum()
    figure = f"{pair.faster('IncrementalPCA')}, variance explained {100 * explained[0]:.2f} %, "
    figure += f"{100 * explained[1]:.2f} %"
    work = f"PCA {SLICE_WIDTH:,} -> {SLICE_COMPONENTS:,} of {SLICE_ROWS:,} rows"
    return Row(work, figure, ">= 5x", 1 / pair.ratio, ours)


def decaying(count: int, width: int) -> Iterator[np.ndarray]:
    """Blocks of rows whose variances fall as features' do; a flat spectrum would be easier."""
    rng = np.random.default_rng(0)
    scale = np.arange(1, width + 1, dtype=np.float32) ** np.float32(-0.6)
    for start in range(0, count, BLOCK):
        shape = (min(BLOCK, count - start), width)
        yield rng.standard_normal(shape, dtype=np.float32) * scale
