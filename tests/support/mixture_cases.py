"""Mixtures whose every parameter differs from centre to centre."""

import numpy as np

from pipeline.features.sentences.mixtures import Mixture


def some_mixture(kind: str, centres: int = 3, width: int = 4, seed: int = 0) -> Mixture:
    random = np.random.default_rng(seed)
    shape = (centres, width)
    weights = random.uniform(0.2, 1, centres)
    hybrid = random.random(shape) < 0.5
    return Mixture(
        kind=kind,
        weights=weights / weights.sum(),
        mean=random.standard_normal(shape),
        variance=random.uniform(0.3, 3, shape),
        median=random.standard_normal(shape),
        scale=random.uniform(0.3, 3, shape),
        laplacian=hybrid if kind == "hglmm" else np.full(shape, kind == "lmm"),
    )
