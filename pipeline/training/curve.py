"""Validation by retrieval after every epoch: the row of the curve, and whether the model has
collapsed."""

from collections.abc import Sequence
from functools import partial

import torch

from pipeline.evaluation.figures import chance_deviation, chance_level, measure, summarise
from pipeline.evaluation.metrics.recall import ROWS
from pipeline.evaluation.score_file import SplitScores
from pipeline.evaluation.scores import Scores, as_scores
from pipeline.evaluation.truth import DIRECTIONS
from pipeline.runtime.sealed import sealed
from pipeline.training.schedule import Row
from pipeline.training.trainer import Validation

NEARLY_EQUAL = 0.02  # spread of scores: a tenth of the usual margin
PERFECT = 600.0  # rsum
EQUAL = 0.002  # every hinge is within a hundredth of the margin


def validation_columns(scores: SplitScores) -> Row:
    """rsum, the recalls that curves have, and val_spread: the mean standard deviation of a query's
    scores, the smaller of both directions: near zero after a collapse into one point."""
    measured = measure(
        scores.scores,
        image_groups=scores.image_groups,
        caption_groups=scores.caption_groups,
        metrics=ROWS,
    )
    summary = summarise(measured, ROWS)
    drawn = [metric.name for metric in ROWS if metric.curve]
    figures = {f"val_{way}_{name}": summary[way][name] for way in DIRECTIONS for name in drawn}
    return {"val_rsum": summary["rsum"], **figures, "val_spread": _spread(as_scores(scores.scores))}


def _spread(scores: Scores) -> float:
    """Mean standard deviation of a query's scores, the smaller of both directions. It is computed
    from sums over tiles: the whole matrix need not fit into memory."""
    parts = list(scores.map_runs(partial(_moments, scores)))
    over_captions = torch.cat([row_sums for row_sums, _ in parts], 1) / scores.shape[1]
    over_images = torch.stack([column_sums for _, column_sums in parts]).sum(0) / scores.shape[0]
    return min(
        (squares - sums * sums).clamp_min(0).sqrt().mean().item()
        for sums, squares in (over_captions, over_images)
    )


def _moments(scores: Scores, rows: slice) -> tuple[torch.Tensor, torch.Tensor]:
    """Sums of scores and of squares, float64: over captions (2, n), over these images (2, M)."""
    row_sums = []
    column_sums = []
    for columns in scores.columns():
        tile = torch.tensor(scores.tile(rows, columns), dtype=torch.float64)
        powers = torch.stack([tile, tile * tile])
        row_sums.append(powers.sum(2))
        column_sums.append(powers.sum(1))
    return torch.stack(row_sums).sum(0), torch.cat(column_sums, 1)


def largest_of_chance(scores: SplitScores) -> float:
    """An rsum that random rankings seldom reach: two standard deviations above what they are
    expected to. With many images this is 1.5 times the expectation. With few, where R@10 is large
    by itself, it is far less; a perfect ranking counts as learnt even of two images."""
    groups = scores.image_groups, scores.caption_groups
    expected = chance_level(*groups, ROWS)["rsum"]
    return float(min(expected + 2 * chance_deviation(*groups), PERFECT))


def validate_retrieval(scores: SplitScores, whose: str = "the") -> Validation:
    """What the scores of the validation split say of an epoch: the largest rsum is the best.

    Nearly equal scores are a collapse where rsum is at chance, equal ones where it is no new best.

    Args:
        scores: Of all its images and captions.
        whose: Scores they are, for a message: where networks are trained in turn, "the word
            network's".

    Returns:
        The columns of the curve, the score (rsum) and in which way nothing is learnt, if so.
    """
    columns = validation_columns(scores)
    rsum = columns["val_rsum"]
    spread = columns["val_spread"]
    is_at_chance = rsum < largest_of_chance(scores)
    is_collapsed = spread < (NEARLY_EQUAL if is_at_chance else EQUAL)
    collapsed = (
        f"{whose} validation scores are nearly equal (standard deviation {spread:.2g}), "
        f"rsum is {rsum:.1f}"
    )
    return Validation(
        columns=columns,
        note=f"validation rsum {rsum:.1f}",
        score=rsum,
        collapsed=collapsed if is_collapsed else "",
        unless_better=not is_at_chance,
    )


def curve_tsv(history: Sequence[Row]) -> str:
    """The history as tab-separated text with a header, one row per epoch, six digits; columns that
    only some epochs have are empty in the others. The last line has the digest of the rest."""
    columns = list(dict.fromkeys(column for row in history for column in row))
    rows = [columns] + [[row.get(column, "") for column in columns] for row in history]
    texts = [[f"{v:.6g}" if isinstance(v, float) else str(v) for v in row] for row in rows]
    return sealed(texts)
