"""Fisher vectors of sentences against scikit-image, and such vectors projected.

Both are given float32 word vectors and lists of words, drawn by Zipf's law, and give power- and
L2-normalised vectors: ours in blocks, as the pipeline encodes them, scikit-image's one by one. The
table of words is built once for a corpus; the time with it is stated too. Times are processor time
of one thread: with two, scikit-image's many small products wait for each other.
"""

import statistics
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
from skimage.feature import fisher_vector
from sklearn.mixture import GaussianMixture
from threadpoolctl import threadpool_limits

from benchmarks.common import Row, Seconds, one_thread, paired, paired_ratio, seconds
from pipeline.runtime.process import keep_freed_memory
from pipeline.sentences.encoder import SentenceEncoder, blocks
from pipeline.sentences.fisher import FisherVector
from pipeline.sentences.mixtures import Mixture
from pipeline.statistics.projection import Projection

SENTENCES, LENGTH, VOCABULARY, WIDTH, CENTRES = 5_000, 12, 5_000, 300, 30
PROJECTED, COMPONENTS = 100, 1_500  # width of word vectors and of projected sentence vectors
RUNS = 5
Sentences = list[list[str]]


def rows() -> list[Row]:
    """GMM against scikit-image; HGLMM, which scikit-image does not have, against GMM; and PCA."""
    keep_freed_memory()  # as the stage does
    random = np.random.default_rng(0)
    words = [f"word{i}" for i in range(VOCABULARY)]
    vectors = random.standard_normal((VOCABULARY, WIDTH), dtype=np.float32)
    chances = 1 / np.arange(1, VOCABULARY + 1)
    drawn = random.choice(VOCABULARY, (SENTENCES, LENGTH), p=chances / chances.sum())
    sentences = [[words[i] for i in row] for row in drawn]
    made, took = {}, {}
    for kind in ("gmm", "hglmm"):

        def build(kind: str = kind) -> None:
            made[kind] = FisherVector(words, vectors, mixture(kind))

        took[kind] = min(seconds(build).processor for _ in range(2))
    gmm, hglmm = (lambda kind=kind: encode(made[kind], sentences) for kind in ("gmm", "hglmm"))
    pair = paired_ratio(hglmm, gmm, RUNS)
    figure = f"{pair.of('the time of GMM')}; table {took['hglmm']:.2f} s"
    against_gmm = "the same sentences, HGLMM", figure, "<= 1.25x", pair.ratio <= 1.25, hglmm
    return [
        against_scikit_image(gmm, took["gmm"], words, vectors, sentences),
        Row(*against_gmm),
        through_projection(words, vectors[:, :PROJECTED], sentences),
    ]


def mixture(kind: str, width: int = WIDTH) -> Mixture:
    """A mixture with random centres; a hybrid's dimensions are of either family by chance."""
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
    """Encode all sentences as stages.encode_sentences does."""
    for _, block in blocks(sentences):
        encoder.encode(block)


def against_scikit_image(
    ours, table: float, words: list[str], vectors: np.ndarray, sentences: Sentences
) -> Row:
    """Time of the same GMM's Fisher vectors; scikit-image's also hold gradients of the weights."""
    # in a process of its own, whose memory is its own
    with one_thread(), ProcessPoolExecutor(1, get_context("spawn")) as other:
        other.submit(scikit_image_seconds, words, vectors, sentences[:10]).result()
        ours()
        pairs = []
        for _ in range(RUNS):
            theirs = other.submit(scikit_image_seconds, words, vectors, sentences).result()
            pairs.append((seconds(ours), theirs))
    pair = paired(pairs)
    with_table = pair.reference.wall / (pair.ours.wall + table)
    return Row(
        f"Fisher vectors (GMM), {SENTENCES:,} sentences x {LENGTH} words x {WIDTH}-d x "
        f"{CENTRES} centres",
        f"{pair.faster('scikit-image')}, one thread each; {with_table:.1f}x with the table of "
        f"{VOCABULARY:,} words ({table:.2f} s)",
        ">= 12x",
        pair.ratio <= 1 / 12,
        ours,
    )


def scikit_image_seconds(words: list[str], vectors: np.ndarray, sentences: Sentences) -> Seconds:
    """What scikit-image takes for all sentences."""
    keep_freed_memory()
    model, index = mixture("gmm"), {word: i for i, word in enumerate(words)}
    theirs = GaussianMixture(CENTRES, covariance_type="diag")
    theirs.weights_, theirs.means_, theirs.covariances_ = model.weights, model.mean, model.variance
    theirs.precisions_cholesky_ = 1 / np.sqrt(model.variance)

    def encode_each() -> None:
        for sentence in sentences:
            x = vectors[[index[word] for word in sentence]]
            fisher_vector(x, theirs, improved=True, alpha=0.5)

    with threadpool_limits(1):
        return seconds(encode_each)


def through_projection(words: list[str], vectors: np.ndarray, sentences: Sentences) -> Row:
    """A fitted encoder with random components, beside the matrix product of its projection."""
    fisher = FisherVector(words, vectors, mixture("hglmm", PROJECTED))
    random = np.random.default_rng(2)
    components = random.standard_normal((COMPONENTS, fisher.dim), dtype=np.float32)
    mean, variances = np.zeros(fisher.dim, np.float32), np.ones(COMPONENTS)
    encoder = SentenceEncoder("fisher", fisher, Projection(mean, components, variances, 1.0))
    known = [fisher.encode(block) for _, block in blocks(sentences)]

    def ours() -> None:
        encode(encoder, sentences)

    def product() -> None:
        for rows in known:
            rows @ components.T

    with one_thread():
        pairs = [(seconds(ours).processor, seconds(product).processor) for _ in range(RUNS)]
    ratio = statistics.median(mine / other for mine, other in pairs)
    rate = len(sentences) / statistics.median(mine for mine, _ in pairs)
    return Row(
        f"sentence vectors through PCA, HGLMM {CENTRES} x {PROJECTED} -> {COMPONENTS:,}",
        f"{rate:,.0f} captions/s of one thread's processor time, {ratio:.2f}x of the time of the "
        "matrix product alone",
        ">= 3,000/s",
        rate >= 3000,
        ours,
    )
