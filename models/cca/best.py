"""A training that is one fit, with the regularisation that validation finds best."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from models.base.model import TrainingJob
from models.cca.fit import fit_each
from models.cca.network import CCA
from pipeline.runtime.process import say
from pipeline.training.phases import Fitted
from pipeline.training.resume import ResumeFile


def fit_job(
    name: str,
    config: Any,
    opened: Any,
    blocks: Callable[[], Iterable[tuple[np.ndarray, np.ndarray]]],
    pairs: int,
    judge: Callable[[CCA], dict[str, Any]],
    params: dict[str, Any],
) -> TrainingJob:
    """Fit with every regularisation in one pass, on the CPU; the one with the largest `val_rsum` is
    kept.

    name, config: the section of params.yaml, a CCAConfig; opened: inputs with `sizes` and
    `identity`; blocks: (B, Dx) and (B, Dy), `pairs` rows in all; judge: the curve's columns for a
    model, `val_rsum` among them; params: as in TrainingJob.
    """
    dim = min(config.dim, *opened.sizes.values(), pairs - 1)
    sizes = opened.sizes | {"dim": dim}

    def run(_: ResumeFile) -> Fitted:
        rows: list[dict[str, Any]] = []
        kept: tuple[float, int, CCA] | None = None
        fits = fit_each(blocks(), dim, config.tried, pairs)
        for number, (eta, fitted) in enumerate(zip(config.tried, fits, strict=True), 1):
            model = CCA(**sizes)
            model.load_state_dict(fitted.weights(config.power))
            columns = judge(model)
            images, texts = fitted.constant
            say(
                f"{name}: {dim} directions ({name}.dim = {config.dim}) from {pairs:,} pairs, "
                f"correlations {fitted.correlations[0]:.3f} to {fitted.correlations[-1]:.3f}; "
                f"constant columns, which get no weight: {images} of the images, {texts} of the "
                f"texts; validation rsum {columns['val_rsum']:.1f} with regularisation {eta:g}"
            )
            rows.append({"epoch": number, "phase": "fit", "regularisation": eta} | columns)
            if kept is None or columns["val_rsum"] > kept[0]:
                kept = columns["val_rsum"], number, model
        assert kept is not None  # there is one regularisation at least
        return Fitted(kept[2].state_dict(), kept[1], rows)

    return TrainingJob(run, sizes, params, opened.identity)
