"""The space in which a Fisher vector sees words: unit vectors, turned to independent components.

Klein et al. 2015 (arXiv:1411.7399), section 5: a mixture with independent dimensions suits word
vectors better once independent component analysis (ICA) has made their dimensions so.
"""

import warnings
from dataclasses import dataclass

import numpy as np
from sklearn.decomposition import FastICA
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import normalize

from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.process import Progress, say

ITERATIONS = 200  # most iterations of FastICA
TOLERANCE = 1e-4  # FastICA has settled when its directions turn by less (1 - |cosine|)
SCALES = {"gmm": 1.0, "lmm": 10.0, "hglmm": 10.0}  # by mixture, Klein et al. 2015
_FLAT = 1e-12  # of the greatest variance: what is below is the rounding of float32 vectors
_ROWS = 8192  # rows worked on at a time


@dataclass(frozen=True)
class WordSpace:
    """A map of word vectors of D numbers to C numbers."""

    whitening: np.ndarray | None  # (C, D) float32, the ICA's unmixing matrix; None: no ICA, C is D
    scale: float  # length of every vector but zero ones, 10 in Klein et al. for lmm and hglmm

    def apply(self, vectors: np.ndarray) -> np.ndarray:
        """L2, W x, L2, times scale: (V, D) to (V, C) float32. Rows of zeros stay zero; x is not
        centred."""
        width = vectors.shape[1] if self.whitening is None else len(self.whitening)
        mapped = np.empty((len(vectors), width), np.float32)
        for start in range(0, len(vectors), _ROWS):
            block = _unit(vectors[start : start + _ROWS])
            if self.whitening is not None:
                block = _unit(block @ self.whitening.T.astype(np.float64))
            mapped[start : start + _ROWS] = block * self.scale
        return mapped


def fit_word_space(
    vectors: np.ndarray, components: int | None, scale: float, seed: int
) -> WordSpace:
    """Find the independent components of word vectors.

    FastICA of scikit-learn in float64 (parallel, logcosh, unit variance) on the unit vectors,
    centred for the fit alone. It stops after ITERATIONS, with a line where it has not settled. At
    work it holds about five float64 copies.

    Args:
        vectors: (N, D).
        components: C of the ICA, None for no ICA.
        scale: the length that mapped vectors have.
        seed: of the ICA's first directions.

    Returns:
        The word space.

    Raises:
        WorkbenchError: for too few vectors, and for more components than directions in which they
            vary.
    """
    if components is None:
        return WordSpace(None, scale)
    units = _unit(vectors)
    _check_components(units, components)
    return WordSpace(_unmixing(units, components, seed).astype(np.float32), scale)


def _unmixing(units: np.ndarray, components: int, seed: int) -> np.ndarray:
    """FastICA's unmixing matrix with its whitening, (C, D) float64, of unit vectors (N, D)."""
    varies = units.max(axis=0) > units.min(axis=0)
    if not varies.all():  # a constant first dimension makes scikit-learn's whitening all zeros
        unmixing = np.zeros((components, len(varies)))
        unmixing[:, varies] = _unmixing(units[:, varies], components, seed)
        return unmixing
    title = f"finding {components} independent components"
    with Progress(title, ITERATIONS, "iterations") as progress:

        def contrast(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            """Slope of log cosh at x (C, N), and the mean of its own slope; once an iteration."""
            progress.update()
            slope = np.tanh(x)
            return slope, 1 - np.einsum("cn,cn->c", slope, slope) / x.shape[1]

        ica = FastICA(
            components,
            whiten="unit-variance",
            whiten_solver="eigh",  # as exact here, and svd takes minutes at 300,000 vectors
            fun=contrast,
            max_iter=ITERATIONS,
            tol=TOLERANCE,
            random_state=seed,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            # of directions that are not asked for: _check_components has seen to the others
            warnings.filterwarnings("ignore", "There are some small singular values")
            ica.fit(units)
        progress.total = progress.count
    if ica.n_iter_ == ITERATIONS:
        say(
            f"FastICA has not settled after {ica.n_iter_} iterations (tolerance {TOLERANCE:g}): "
            "the components are used as they are"
        )
    return ica.components_


def _unit(vectors: np.ndarray) -> np.ndarray:
    """Rows of length 1 in float64; rows of zeros stay zero."""
    return normalize(vectors.astype(np.float64), copy=False)


def _check_components(units: np.ndarray, components: int) -> None:
    if len(units) <= components:
        raise WorkbenchError(
            f"{components} ICA components need {components + 1} word vectors: there are "
            f"{len(units)}",
            "ask for fewer components, or give more word vectors",
        )
    directions = _directions(units)
    if directions < components:
        raise WorkbenchError(
            f"{components} ICA components: the word vectors vary in {directions} directions only",
            f"ask for {directions} components or fewer, or give more word vectors",
        )


def _directions(units: np.ndarray) -> int:
    """Rank of the covariance of the rows (N, D)."""
    variances = np.linalg.eigvalsh(np.atleast_2d(np.cov(units, rowvar=False)) * (len(units) - 1))
    return int(np.sum(variances > max(_FLAT * variances[-1], np.finfo(np.float64).eps)))
