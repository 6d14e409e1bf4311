"""Mixtures of word vectors: the distributions whose gradients make a Fisher vector.

Klein et al. 2015 (arXiv:1411.7399): a Gaussian mixture (GMM), a Laplacian one (LMM) and the hybrid
(HGLMM), in which every dimension of every centre is either Gaussian or Laplacian, whichever
explains the data better. All have independent dimensions and are fitted by EM.

Shapes: N rows, D dimensions, K centres. No array of N x K x D values is ever made.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.runtime.process import Progress

KINDS = ("gmm", "lmm", "hglmm")
FLOOR = 1e-3  # least variance, and least scale, of a dimension
WEIGHT_FLOOR = 1e-10  # least weight of a centre: a Fisher vector divides by its root
_LARGEST = 1e30  # squares of greater values could overflow
_BLOCK = 2**16  # numbers worked on at a time, half a megabyte: they stay in the processor's cache


@dataclass(frozen=True)
class Mixture:
    """A mixture with independent dimensions, all arrays of numbers float64. Where a dimension is of
    one family, the other's parameters are not read."""

    kind: str  # one of KINDS
    weights: np.ndarray  # (K,), sum to 1, none below WEIGHT_FLOOR but for rounding
    mean: np.ndarray  # (K, D) of the Gaussian dimensions
    variance: np.ndarray  # (K, D) likewise
    median: np.ndarray  # (K, D) of the Laplacian dimensions
    scale: np.ndarray  # (K, D) likewise, the mean distance from the median
    laplacian: np.ndarray  # (K, D) bool: all False for gmm, all True for lmm

    def log_joint(self, x: np.ndarray) -> np.ndarray:
        """log w_k + sum over d of the log density of x_d in centre k: (N, D) to (N, K) float64."""
        location = np.where(self.laplacian, self.median, self.mean)
        linear = np.where(self.laplacian, 1 / self.scale, 0.0)
        square = np.where(self.laplacian, 0.0, 0.5 / self.variance)
        normal = 0.5 * np.log(2 * np.pi * self.variance)
        constant = np.where(self.laplacian, np.log(2 * self.scale), normal).sum(axis=1)
        joint = np.empty((len(x), len(self.weights)))
        for rows in _blocks(len(x), x.shape[1]):
            block = x[rows].astype(np.float64)
            for k in range(len(self.weights)):
                away = np.abs(block - location[k])
                joint[rows, k] = -np.einsum("nd,d->n", away, linear[k])
                joint[rows, k] -= np.einsum("nd,d->n", np.square(away, out=away), square[k])
        return joint + (np.log(self.weights) - constant)

    def responsibilities(self, x: np.ndarray) -> np.ndarray:
        """Probability of every centre given the row: (N, D) to (N, K) float64, rows sum to 1."""
        return _expect(self, x)[0]


def _expect(mixture: Mixture, x: np.ndarray) -> tuple[np.ndarray, float]:
    """The E step: responsibilities (N, K) and the mean log-likelihood."""
    joint = mixture.log_joint(x)
    top = joint.max(axis=1, keepdims=True)  # subtracted: densities themselves underflow
    joint -= top
    np.exp(joint, out=joint)
    total = joint.sum(axis=1, keepdims=True)
    likelihood = float(np.mean(top + np.log(total)))
    joint /= total
    return joint, likelihood


def fit_mixture(
    x: np.ndarray, kind: str, centres: int, iterations: int, seed: int
) -> tuple[Mixture, list[float]]:
    """Fit a mixture by EM.

    The log-likelihood never falls but for rounding: every M step takes the best parameters among
    those that respect FLOOR, the old ones included. Beside x this holds N x D int32 (not for gmm)
    and some N x K float64.

    Args:
        x: (N, D) rows.
        kind: gmm, lmm or hglmm.
        centres: K.
        iterations: of EM; it does not stop before.
        seed: of the first centres, and of a hybrid's first families.

    Returns:
        The mixture, and the mean log-likelihood after every iteration.

    Raises:
        WorkbenchError: for numbers that are not finite, and for fewer than K different rows.
    """
    if kind not in KINDS:
        raise ValueError(f"kind {kind!r}: allowed are {listing(KINDS)}")
    _check_numbers(x)
    order = None if kind == "gmm" else sort_dimensions(x)
    mixture = initial_mixture(x, order, kind, centres, seed)
    history: list[float] = []
    gamma = mixture.responsibilities(x)
    with Progress(f"fitting {kind}", iterations, "iterations") as progress:
        for _ in range(iterations):
            mixture = maximise(mixture, x, order, gamma)
            gamma, likelihood = _expect(mixture, x)
            history.append(likelihood)
            progress.update(note=f"log-likelihood {likelihood:.4f}")
    return mixture, history


def sort_dimensions(x: np.ndarray) -> np.ndarray:
    """Per dimension, the row numbers of x (N, D) by ascending value: (D, N) int32."""
    order = np.empty(x.shape[::-1], np.int32)
    for d in range(x.shape[1]):
        order[d] = np.argsort(x[:, d])
    return order


def initial_mixture(
    x: np.ndarray, order: np.ndarray | None, kind: str, centres: int, seed: int
) -> Mixture:
    """Where EM starts: K different rows, equal weights, the spread of all rows; half the dimensions
    of a hybrid, drawn at random, are Laplacian.

    Args:
        x: (N, D) rows.
        order: (D, N) of sort_dimensions, None for gmm, whose scales are 1.
        kind: gmm, lmm or hglmm.
        centres: K.
        seed: of the draws.

    Returns:
        The mixture.

    Raises:
        WorkbenchError: for fewer than K different rows.
    """
    random = np.random.default_rng(seed)
    rows = _different_rows(x, centres, random)
    shape = rows.shape
    everyone = np.ones((len(x), 1))
    variance = fit_gaussians(x, everyone)[1]
    scale = np.ones(shape) if order is None else fit_laplacians(x, order, everyone)[1]
    hybrid = random.random(shape) < 0.5
    return Mixture(
        kind=kind,
        weights=np.full(centres, 1 / centres),
        mean=rows,
        variance=np.broadcast_to(variance, shape).copy(),
        median=rows.copy(),
        scale=np.broadcast_to(scale, shape).copy(),
        laplacian=hybrid if kind == "hglmm" else np.full(shape, kind == "lmm"),
    )


def maximise(
    mixture: Mixture, x: np.ndarray, order: np.ndarray | None, gamma: np.ndarray
) -> Mixture:
    """The M step: the mixture that suits the rows best, given the responsibilities.

    A centre left with less than WEIGHT_FLOOR of the rows keeps its parameters, and that weight; so
    does a family that the kind has no use for.

    Args:
        mixture: before the step.
        x: (N, D) rows.
        order: (D, N) of sort_dimensions, None for gmm.
        gamma: (N, K) responsibilities.

    Returns:
        The mixture after the step.
    """
    share = gamma.sum(axis=0) / len(x)
    weights = np.maximum(share, WEIGHT_FLOOR)
    new = {"weights": weights / weights.sum()}
    if mixture.kind != "lmm":
        new["mean"], new["variance"], gaussian_fit = fit_gaussians(x, gamma)
    if order is not None:
        new["median"], new["scale"], laplacian_fit = fit_laplacians(x, order, gamma)
    if mixture.kind == "hglmm":
        new["laplacian"] = laplacian_fit > gaussian_fit
    idle = share < WEIGHT_FLOOR
    for name in new.keys() - {"weights"}:
        new[name][idle] = getattr(mixture, name)[idle]
    return replace(mixture, **new)


def fit_gaussians(x: np.ndarray, gamma: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The Gaussians that suit weighted rows best.

    Args:
        x: (N, D) rows.
        gamma: (N, K) weights of the rows, for each of K centres.

    Returns:
        Means, variances of at least FLOOR, and the mean log density they reach, each (K, D)
        float64.
    """
    mass = _mass(gamma)
    mean = np.zeros((gamma.shape[1], x.shape[1]))
    for rows in _blocks(len(x), x.shape[1]):
        mean += gamma[rows].T @ x[rows].astype(np.float64)
    mean /= mass
    spread = _spread(x, gamma, mean, np.square) / mass
    variance = np.maximum(FLOOR, spread)
    return mean, variance, -0.5 * (np.log(2 * np.pi * variance) + spread / variance)


def fit_laplacians(
    x: np.ndarray, order: np.ndarray, gamma: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The Laplacians that suit weighted rows best.

    Args:
        x: (N, D) rows.
        order: (D, N) of sort_dimensions.
        gamma: (N, K) weights of the rows, for each of K centres.

    Returns:
        Medians, mean distances from them of at least FLOOR, and the mean log density they reach,
        each (K, D) float64.
    """
    median = weighted_medians(x, order, gamma)
    spread = _spread(x, gamma, median, np.abs) / _mass(gamma)
    scale = np.maximum(FLOOR, spread)
    return median, scale, -np.log(2 * scale) - spread / scale


def weighted_medians(x: np.ndarray, order: np.ndarray, gamma: np.ndarray) -> np.ndarray:
    """Per centre and dimension, the first value by size whose cumulated weight is half of all.

    Args:
        x: (N, D) rows.
        order: (D, N) of sort_dimensions.
        gamma: (N, K) weights of the rows, for each of K centres.

    Returns:
        (K, D) float64.
    """
    centres = gamma.shape[1]
    blocks = list(_blocks(len(x), centres))
    median = np.empty((centres, x.shape[1]))
    for d, ranked in enumerate(order):
        reached = np.cumsum([gamma[ranked[rows]].sum(axis=0) for rows in blocks], axis=0)
        for k in range(centres):
            half = reached[-1, k] / 2
            block = int(np.searchsorted(reached[:, k], half))
            inside = ranked[blocks[block]]
            before = reached[block - 1, k] if block else 0.0
            index = np.searchsorted(before + np.cumsum(gamma[inside, k]), half)
            # another order of adding up may leave the block's own sum a rounding short of half
            median[k, d] = x[inside[min(int(index), len(inside) - 1)], d]
    return median


def _spread(
    x: np.ndarray, gamma: np.ndarray, location: np.ndarray, cost: Callable[..., np.ndarray]
) -> np.ndarray:
    """Sum over the rows of gamma * cost(x - location): (N, D), (N, K) and (K, D) to (K, D)."""
    total = np.zeros(location.shape)
    for rows in _blocks(len(x), x.shape[1]):
        block = x[rows].astype(np.float64)
        for k, centre in enumerate(location):
            away = block - centre
            total[k] += gamma[rows, k] @ cost(away, out=away)
    return total


def _mass(gamma: np.ndarray) -> np.ndarray:
    """Responsibility of every centre, (K, 1), never quite 0 so that it can divide."""
    return np.maximum(gamma.sum(axis=0), np.finfo(np.float64).tiny)[:, None]


def _different_rows(x: np.ndarray, count: int, random: np.random.Generator) -> np.ndarray:
    """`count` rows of x (N, D) drawn without replacement, no two equal; float64."""
    chosen: dict[bytes, int] = {}
    for row in random.permutation(len(x)):
        chosen.setdefault((x[row] + 0.0).tobytes(), int(row))  # + 0.0: -0.0 equals 0.0
        if len(chosen) == count:
            return x[list(chosen.values())].astype(np.float64)
    raise WorkbenchError(
        f"{count} centres need {count} different rows: there are {len(chosen)} in {len(x)}",
        "ask for fewer centres, or give more word vectors",
    )


def _check_numbers(x: np.ndarray) -> None:
    good = [(np.abs(x[rows]) < _LARGEST).all(axis=1) for rows in _blocks(len(x), x.shape[1])]
    bad = np.flatnonzero(~np.concatenate([*good, np.ones(0, bool)]))
    if len(bad):
        raise WorkbenchError(
            f"{len(bad)} of {len(x)} rows are not finite numbers below {_LARGEST:g}: "
            f"rows {listing(bad)}"
        )


def _blocks(rows: int, width: int) -> Iterator[slice]:
    """Slices over `rows` rows of `width` numbers, about _BLOCK numbers each."""
    step = max(1, _BLOCK // max(1, width))
    for start in range(0, rows, step):
        yield slice(start, start + step)
