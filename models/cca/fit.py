"""Canonical correlation analysis: the linear baseline that the two-branch networks are measured by.

Hotelling's method on covariances gathered in one pass, the larger covariance eliminated by its
Cholesky factor, so that the one eigendecomposition has the size of the narrower side.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.linalg import LinAlgError, cholesky
from scipy.linalg.blas import dsymv, dsyrk, dtrsm

from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.process import say
from pipeline.statistics.covariance import measure, peek
from pipeline.statistics.projection import leading_eigenvectors, signs

SIDES = ("image features", "sentence vectors")


@dataclass(frozen=True)
class Canonical:
    """Paired directions in descending order of correlation.

    W' (C + r I) W = I on either side, r the regulariser. Directions whose correlation is no more
    than rounding, such as those beyond the rank of the data, have correlation 0 and, like constant
    columns, weights of zero.
    """

    image_mean: np.ndarray  # (Dx,) float32
    image_weights: np.ndarray  # (Dx, K) float32
    sentence_mean: np.ndarray  # (Dy,) float32
    sentence_weights: np.ndarray  # (Dy, K) float32
    correlations: np.ndarray  # (K,) float64 in [0, 1]
    constant: tuple[int, int]  # how many columns of images and of sentences never vary

    def weights(self, power: float) -> dict[str, torch.Tensor]:
        """The weights of a models.cca.network.CCA: the directions are scaled by the correlations to
        the power p (p = 4 in Gong et al. 2014)."""
        scales = (self.correlations**power).astype(np.float32)
        arrays = {
            "image_mean": self.image_mean,
            "image_weights": self.image_weights * scales,
            "sentence_mean": self.sentence_mean,
            "sentence_weights": self.sentence_weights * scales,
        }
        return {name: torch.from_numpy(array) for name, array in arrays.items()}


def fit_cca(
    blocks: Iterable[tuple[np.ndarray, np.ndarray]], dim: int, regularisation: float, rows: int
) -> Canonical:
    """Fit K = `dim` pairs of directions in one pass over blocks of paired rows.

    blocks: (B, Dx) and (B, Dy), cut anywhere; regularisation: eta in C + (eta * (largest eigenvalue
    of C) + 1e-8) I, which also makes constant columns solvable; rows: of all blocks together.

    WorkbenchError: dim not within 1 to min(Dx, Dy, rows - 1), NaN or infinity, another number of
    rows, a side without a column that varies, a covariance that is singular because the
    regularisation is too small.
    """
    return next(fit_each(blocks, dim, (regularisation,), rows))


def fit_each(
    blocks: Iterable[tuple[np.ndarray, np.ndarray]],
    dim: int,
    regularisations: Sequence[float],
    rows: int,
) -> Iterator[Canonical]:
    """What fit_cca gives for each of some regularisations, in one pass over (B, Dx) and (B, Dy)."""
    widths, parts = peek(blocks)
    if not 1 <= dim <= (allowed := min(*widths, rows - 1)):
        raise WorkbenchError(
            f"cca.dim = {dim:,}: {rows:,} training pairs of {widths[0]:,} and {widths[1]:,} "
            f"numbers allow 1 to {allowed:,}",
            f"set it to at most {allowed:,} in params.yaml",
        )
    narrow = int(widths[1] < widths[0])
    order = (narrow, 1 - narrow)
    mean, joint = measure(
        "cca",
        [SIDES[side] for side in order],
        [widths[side] for side in order],
        (tuple(block[side] for side in order) for block in parts),
        rows,
    )
    edge = widths[narrow]
    deviations = np.split(np.sqrt(joint.diagonal()), [edge])
    still = [deviation == 0 for deviation in deviations]
    constant = (int(still[order[0]].sum()), int(still[order[1]].sum()))
    for name, count, width in zip(SIDES, constant, widths, strict=True):
        if count == width:
            text = f"cca: all {width:,} columns of the {name} are constant over {rows:,} rows"
            raise WorkbenchError(text)
    means = mean[:edge], mean[edge:]
    a, b = (np.asfortranarray(joint[part, part]) for part in (slice(edge), slice(edge, None)))
    cross = np.asfortranarray(joint[edge:, :edge])
    del joint
    for n, regularisation in enumerate(regularisations, 1):
        say(f"cca: {dim:,} directions of {widths[0]:,} and {widths[1]:,} columns")
        last = n == len(regularisations)  # which may take the memory of the covariances
        factors = [
            _factor(covariance if last else covariance.copy("F"), regularisation, SIDES[side])
            for side, covariance in zip(order, (a, b), strict=True)
        ]
        *weights, correlations = _directions(
            factors[0], factors[1], cross if last else cross.copy("F"), dim
        )
        noise = correlations <= _rounding(deviations[0], deviations[1], *weights)
        correlations[noise] = 0
        for side in (0, 1):
            # Rounding gives a constant column a weight, which would scale what new data do there.
            weights[side][:, noise] = weights[side][still[side]] = 0
        image, sentence = order
        flip = signs(weights[image])
        yield Canonical(
            means[image].astype(np.float32),
            (weights[image] * flip).astype(np.float32),
            means[sentence].astype(np.float32),
            (weights[sentence] * flip).astype(np.float32),
            correlations,
            constant,
        )


def largest_eigenvalue(matrix: np.ndarray, steps: int = 64) -> float:
    """Largest eigenvalue of a symmetric matrix (D, D) in Fortran order, lower triangle read.
    Lanczos from a fixed start: ARPACK restarts at random where it meets an invariant subspace."""
    size = len(matrix)
    basis = np.zeros((min(steps, size), size))
    vector = np.random.default_rng(0).standard_normal(size)
    diagonal: list[float] = []
    beside: list[float] = []
    for step in range(len(basis)):
        basis[step] = vector / np.linalg.norm(vector)
        vector = dsymv(1.0, matrix, basis[step], lower=1)
        diagonal.append(float(vector @ basis[step]))
        for _ in range(2):  # once leaves rounding errors that the next steps would amplify
            vector -= (basis[: step + 1] @ vector) @ basis[: step + 1]
        beside.append(float(np.linalg.norm(vector)))
        if beside[-1] <= 1e-12 * max(diagonal):
            break
    tridiagonal = np.diag(diagonal) + np.diag(beside[:-1], 1) + np.diag(beside[:-1], -1)
    return float(np.linalg.eigvalsh(tridiagonal)[-1])


def _factor(covariance: np.ndarray, regularisation: float, name: str) -> np.ndarray:
    """Lower Cholesky factor (D, D) of a covariance with the regulariser added, in its memory."""
    covariance[np.diag_indices_from(covariance)] += (
        regularisation * largest_eigenvalue(covariance) + 1e-8
    )
    try:
        return cholesky(covariance, lower=True, overwrite_a=True, check_finite=False)
    except LinAlgError:
        raise WorkbenchError(
            f"cca.regularisation = {regularisation:g}: the covariance of the {name} is singular",
            "raise it (1e-4 is the usual value) in params.yaml",
        ) from None


def _directions(
    a: np.ndarray, b: np.ndarray, cross: np.ndarray, dim: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weights (Da, K) and (Db, K) and correlations (K,) in descending order. a, b: lower Cholesky
    factors; cross: (Db, Da) covariance, overwritten. With M = Lb^-1 C La^-T, the eigenvectors V of
    M'M give Wa = La^-T V and Wb = Lb^-T M V / rho."""
    cross = dtrsm(1.0, b, cross, lower=1, overwrite_b=1)
    cross = dtrsm(1.0, a, cross, side=1, lower=1, trans_a=1, overwrite_b=1)
    squares = dsyrk(1.0, cross, trans=1, lower=1)
    _, vectors = leading_eigenvectors(squares, dim)
    left = np.asfortranarray(vectors)
    right = cross @ left
    rho = np.linalg.norm(right, axis=0)
    # M'M holds squares: below this its eigenvectors, and so rho, are rounding errors.
    kept = rho > np.sqrt(len(b) * np.finfo(np.float64).eps)
    left *= kept
    right *= np.divide(1.0, rho, out=np.zeros_like(rho), where=kept)
    left = dtrsm(1.0, a, left, lower=1, trans_a=1, overwrite_b=1)
    right = dtrsm(1.0, b, np.asfortranarray(right), lower=1, trans_a=1, overwrite_b=1)
    return left, right, np.where(kept, np.minimum(rho, 1.0), 0.0)


def _rounding(
    deviations_a: np.ndarray, deviations_b: np.ndarray, weights_a: np.ndarray, weights_b: np.ndarray
) -> np.ndarray:
    """What the float32 products of the covariance may add to each of K correlations.

    deviations: (Da,) and (Db,) of the columns; weights: (Da, K) and (Db, K). The rounding of an
    entry of C is of size eps s_i s_j; a matrix E of independent errors of size eps has norm eps
    (sqrt(Da) + sqrt(Db)) (Vershynin 2012, theorem 5.32): of a correlation wb' C wa no more than
    that times |s wb| |s wa| is rounding.
    """
    sizes = np.sqrt(len(deviations_a)) + np.sqrt(len(deviations_b))
    scale_a, scale_b = (
        np.linalg.norm(deviations[:, None] * weights, axis=0)
        for deviations, weights in ((deviations_a, weights_a), (deviations_b, weights_b))
    )
    return np.finfo(np.float32).eps * sizes * scale_a * scale_b
