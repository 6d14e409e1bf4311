"""Fisher vectors of sentences against scikit-image, and such vectors projected.

Both are given float32 word vectors and lists of words, drawn by Zipf's law, and give power- and
L2-normalised vectors: ours in blocks, as the pipeline encodes them, scikit-image's one by one. The
table of words is built once for a corpus; the time with it is stated too. All have one thread: with
two, scikit-image's many small products wait for each other.
"""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from skimage.feature import fisher_vector
from sklearn.mixture import GaussianMixture

from benchmarks.common import Row, paired_ratio, seconds, size
from pipeline.features.sentences.encoder import SentenceEncoder, blocks
from pipeline.features.sentences.fisher import FisherVector
from pipeline.features.sentences.mixtures import Mixture
from pipeline.features.statistics.projection import Projection
from pipeline.runtime.process import keep_freed_memory

SENTENCES, LENGTH, VOCABULARY = size((5_000, 12, 5_000), (20, 4, 30))
WIDTH, CENTRES = size((300, 30), (6, 3))
PROJECTED, COMPONENTS = size((100, 1_500), (4, 5))  # width of words and of projected sentences
THREADS = 1
Sentences = list[list[str]]


def rows() -> Iterator[Row]:
    keep_freed_memory()  # as the stage does
    random = np.random.default_rng(0)
    words = [f"word{i}" for i in range(VOCABULARY)]
    vectors = random.standard_normal((VOCABULARY, WIDTH), dtype=np.float32)
    chances = 1 / np.arange(1, VOCABULARY + 1)
    drawn = random.choice(VOCABULARY, (SENTENCES, LENGTH), p=chances / chances.sum())
    sentences = [[words[i] for i in row] for row in drawn]
    forms, tables = [], []
    for kind in ("gmm", "hglmm"):
        build = partial(FisherVector, words, vectors, mixture(kind))
        tables.append(min(seconds(build).processor for _ in range(2)))
        forms.append(partial(encode, build(), sentences))
    gmm, hglmm = forms
    pair = paired_ratio(gmm, scikit_image(words, vectors, sentences))
    with_table = pair.reference.wall / (pair.ours.wall + tables[0])
    yield Row(
        f"Fisher vectors (GMM), {SENTENCES:,} sentences x {LENGTH} words x {WIDTH}-d x "
        f"{CENTRES} centres",
        f"{pair.faster('scikit-image')}, one thread each; {with_table:.1f}x with the table of "
        f"{VOCABULARY:,} words ({tables[0]:.2f} s)",
        ">= 12x",
        1 / pair.ratio,
        gmm,
    )
    pair = paired_ratio(hglmm, gmm)
    figure = f"{pair.of('the time of GMM')}; table {tables[1]:.2f} s"
    yield Row("the same sentences, HGLMM", figure, "<= 1.25x", pair.ratio, hglmm)
    yield through_projection(words, vectors[:, :PROJECTED], sentences)


def mixture(kind: str, width: int = WIDTH) -> Mixture:
    random = np.random.default_rng(1)
    shape = (CENTRES, width)
    return Mixture(
        kind=kind,
        weights=np.full(CENTRES, 1 / CENTRES),
        mean=random.standard_normal(shape),
        variance=random.uniform(0.5, 2, shape),
        median=random.standard_normal(shape),
        scale=random.uniform(0.5, 2, shape),
        laplacian=(random.random(shape) < 0.5) & (kind == "hglmm"),
    )


def encode(encoder, sentences: Sentences) -> None:
    for _, block in blocks(sentences):
        encoder.encode(block)


def scikit_image(words: list[str], vectors: np.ndarray, sentences: Sentences) -> Callable[[], None]:
    """The same GMM's Fisher vectors by scikit-image, which also hold gradients of the weights."""
    model, index = mixture("gmm"), {word: i for i, word in enumerate(words)}
    theirs = GaussianMixture(CENTRES, covariance_type="diag")
    theirs.weights_, theirs.means_, theirs.covariances_ = model.weights, model.mean, model.variance
    theirs.precisions_cholesky_ = 1 / np.sqrt(model.variance)

    def encode_each() -> None:
        for sentence in sentences:
            x = vectors[[index[word] for word in sentence]]
            fisher_vector(x, theirs, improved=True, alpha=0.5)

    return encode_each


def through_projection(words: list[str], vectors: np.ndarray, sentences: Sentences) -> Row:
    """A fitted encoder with random components, beside the matrix product of its projection."""
    fisher = FisherVector(words, vectors, mixture("hglmm", PROJECTED))
    random = np.random.default_rng(2)
    components = random.standard_normal((COMPONENTS, fisher.dim), dtype=np.float32)
    mean, variances = np.zeros(fisher.dim, np.float32), np.ones(COMPONENTS)
    encoder = SentenceEncoder("fisher", fisher, Projection(mean, components, variances, 1.0))
    known = [fisher.encode(block) for _, block in blocks(sentences)]
    ours = partial(encode, encoder, sentences)
    pair = paired_ratio(ours, lambda: [rows @ components.T for rows in known])
    rate = len(sentences) / pair.ours.processor
    return Row(
        f"sentence vectors through PCA, HGLMM {CENTRES} x {PROJECTED} -> {COMPONENTS:,}",
        f"{rate:,.0f} captions/s of one thread's processor time, {pair.processor:.2f}x of the time "
        "of the matrix product alone",
        ">= 3,000/s",
        rate,
        ours,
    )
