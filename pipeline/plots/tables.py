"""Tables that `dvc plots` draws, of the naive criterion: one row a point, the model in a column."""

from collections.abc import Mapping, Sequence
from typing import Any

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

TRAINING = ["model", "epoch", "rsum", "note", "colour"]  # columns

Rows = list[dict[str, Any]]


def training_rows(model: str, curve: Curve) -> Rows:
    """Validation rsum by epoch; `note` says where a next phase of the training begins."""
    turns = {epoch: f"{model}: {phase} begins" for epoch, phase in curve.turns.items()}
    return [
        {"model": model, "epoch": int(epoch), "rsum": rsum, "note": turns.get(epoch, "")}
        for epoch, rsum in zip(curve.epochs, curve.rsum, strict=True)
    ]


def recall_rows(model: str, ranks: QueryRanks) -> Rows:
    """Recall at K in percent, a row for each direction and each K that its gallery has."""
    rows = []
    for way, queries, items in ("i2t", ranks.i2t, ranks.t2i), ("t2i", ranks.t2i, ranks.i2t):
        for depth in (depth for depth in DEPTHS if depth <= len(items.ids)):
            recall = 100 * float((queries.measured.ranks <= depth).mean())
            rows.append({"model": model, "direction": WAYS[way], "k": depth, "recall": recall})
    return rows


def separation_rows(model: str, found: Separation) -> Rows:
    """Densities of the scores of true and of other pairs over the used bins, and the overlap S."""
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
    """Shares of the items that are the nearest of no query, of one, and of more, in percent.
    counts: of how many queries each item is the nearest, (M,) for i2t, (N,) for t2i."""
    items = {"i2t": "captions", "t2i": "images"}
    return [
        {"model": model, "items": items[way], "nearest_of": name, "share": share}
        for way in DIRECTIONS
        for name, share in zip(CLASSES, Hubness(counts[way]).shares, strict=True)
    ]


def coloured(rows: Rows, numbers: Mapping[str, int]) -> Rows:
    """The rows with the colour of their model; numbers: as `report.colours.numbers_of`."""
    return [{**row, "colour": shade(numbers[row["model"]])} for row in rows]


def as_tsv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Tab-separated text with a header, floats with six digits; no rows: of models of one epoch."""
    table = pd.DataFrame(rows, columns=None if rows else TRAINING)
    return table.to_csv(sep="\t", index=False, float_format="%.6g", lineterminator="\n")
