"""Tables that `dvc plots` draws, of the naive criterion: one row a point, the model in a column."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from pipeline.evaluation.findings import CLASSES, Hubness, Separation
from pipeline.evaluation.rank_file import QueryRanks
from pipeline.evaluation.truth import DIRECTIONS, Direction
from pipeline.report.colours import shade
from pipeline.report.curve_files import Curve

# Ranks at which recall is drawn; on a logarithmic axis more would not be told apart.
DEPTHS = (1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 50, 70, 100, 200, 500, 1000)
WAYS = {"i2t": "image to text", "t2i": "text to image"}

TRAINING = ["model", "part", "epoch", "rsum", "note", "colour"]  # columns

Rows = list[dict[str, str | float]]


def training_rows(model: str, curve: Curve) -> Rows:
    """Validation rsum by epoch.

    Args:
        model: its name.
        curve: of its training.

    Returns:
        A row for each epoch; `note` says where a next phase of the training begins, `part` which
        of several parts an epoch trained.
    """
    turns = {epoch: f"{model}: {phase} begins" for epoch, phase in curve.turns.items()}
    return [
        {
            "model": model,
            "part": curve.part(row),
            "epoch": int(epoch),
            "rsum": rsum,
            "note": turns.pop(epoch, ""),  # once, also where several parts turn
        }
        for row, (epoch, rsum) in enumerate(zip(curve.epochs, curve.rsum, strict=True))
    ]


def recall_rows(model: str, ranks: QueryRanks) -> Rows:
    """Recall at K in percent.

    Args:
        model: its name.
        ranks: of its test queries.

    Returns:
        A row for each direction and each K of DEPTHS that its gallery has.
    """
    rows: Rows = []
    for way, queries, items in ("i2t", ranks.i2t, ranks.t2i), ("t2i", ranks.t2i, ranks.i2t):
        for depth in (depth for depth in DEPTHS if depth <= len(items.ids)):
            recall = 100 * float((queries.measured.ranks <= depth).mean())
            rows.append({"model": model, "direction": WAYS[way], "k": depth, "recall": recall})
    return rows


def separation_rows(model: str, found: Separation) -> Rows:
    """Densities of the scores of true and of other pairs.

    Args:
        model: its name.
        found: its histograms, with the overlap S.

    Returns:
        A row for each kind of pair and each used bin.
    """
    edges = np.linspace(found.low, found.high, len(found.true) + 1)
    used = np.flatnonzero(found.true + found.others)
    bins = range(max(used[0] - 1, 0), min(used[-1] + 2, len(found.true)))
    return [
        {
            "model": model,
            "pairs": name,
            "score": float(edges[at] + edges[at + 1]) / 2,
            "density": float(density[at]),
            "overlap": found.overlap,
        }
        for name, density in zip(("true pairs", "other pairs"), found.densities, strict=True)
        for at in bins
    ]


def hub_rows(model: str, counts: Mapping[Direction, np.ndarray]) -> Rows:
    """Shares of the items that are the nearest of no query, of one, and of more.

    Args:
        model: its name.
        counts: of how many queries each item is the nearest, (M,) for i2t, (N,) for t2i.

    Returns:
        A row for each direction and class of items, shares in percent.
    """
    items = {"i2t": "captions", "t2i": "images"}
    return [
        {"model": model, "items": items[way], "nearest_of": name, "share": share}
        for way in DIRECTIONS
        for name, share in zip(CLASSES, Hubness(counts[way]).shares, strict=True)
    ]


def with_colours(rows: Rows, numbers: Mapping[str, int]) -> Rows:
    """Rows with the colour of their model.

    Args:
        rows: each with a `model`.
        numbers: of the models, as of `report.colours.numbers_of`.

    Returns:
        The rows with `colour`, as CSS.
    """
    return [{**row, "colour": shade(numbers[str(row["model"])])} for row in rows]


def as_tsv(rows: Sequence[Mapping[str, object]]) -> str:
    """Tab-separated text with a header, floats with six digits; no rows: of models of one epoch."""
    table = pd.DataFrame(rows, columns=None if rows else TRAINING)
    return table.to_csv(sep="\t", index=False, float_format="%.6g", lineterminator="\n")
