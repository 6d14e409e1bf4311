"""The fit with the regularisation that validation finds best."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from models.cca.fit import fit_each
from models.cca.network import CCA
from pipeline.runtime.process import say
from pipeline.training.phases import Fitted


def fit_best(
    name: str,
    config: Any,
    sizes: Mapping[str, int],
    blocks: Iterable[tuple[np.ndarray, np.ndarray]],
    pairs: int,
    judge: Callable[[CCA], dict[str, Any]],
) -> Fitted:
    """Fit with every regularisation in one pass; the one with the largest `val_rsum` is kept.

    name, config: the section of params.yaml, a CCAConfig; sizes: arguments of CCA; blocks: (B, Dx)
    and (B, Dy), `pairs` rows in all; judge: the curve's columns for a model, `val_rsum` among them.
    """
    rows: list[dict[str, Any]] = []
    kept: tuple[float, int, CCA] | None = None
    fits = fit_each(blocks, sizes["dim"], config.tried, pairs)
    for number, (eta, fitted) in enumerate(zip(config.tried, fits, strict=True), 1):
        model = CCA(**sizes)
        model.load_state_dict(fitted.weights(config.power))
        columns = judge(model)
        images, texts = fitted.constant
        say(
            f"{name}: {sizes['dim']} directions ({name}.dim = {config.dim}) from {pairs:,} pairs, "
            f"correlations {fitted.correlations[0]:.3f} to {fitted.correlations[-1]:.3f}; constant "
            f"columns, which get no weight: {images} of the images, {texts} of the texts; "
            f"validation rsum {columns['val_rsum']:.1f} with regularisation {eta:g}"
        )
        rows.append({"epoch": number, "phase": "fit", "regularisation": eta} | columns)
        if kept is None or columns["val_rsum"] > kept[0]:
            kept = columns["val_rsum"], number, model
    assert kept is not None  # there is one regularisation at least
    return Fitted(kept[2].state_dict(), kept[1], rows)
