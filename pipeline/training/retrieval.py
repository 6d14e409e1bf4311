"""The judge of trainings whose models are compared by retrieval on the validation split."""

from collections.abc import Sequence

from pipeline.scores.file import SplitScores
from pipeline.training.curve import is_collapsed, validation_columns
from pipeline.training.phases import EpochVerdict, Row


def judge_retrieval(scores: SplitScores, history: Sequence[Row]) -> EpochVerdict:
    """The largest rsum is the best; equal scores are a collapse (pipeline.training.curve)."""
    columns = validation_columns(scores)
    rsum, spread = columns["val_rsum"], columns["val_spread"]
    improved = all(rsum > row["val_rsum"] for row in history)
    collapsed = (
        f"the validation scores are nearly equal (standard deviation {spread:.2g}), "
        f"rsum is {rsum:.1f}"
    )
    return EpochVerdict(
        columns,
        f"validation rsum {rsum:.1f}",
        rsum,
        collapsed if is_collapsed(scores, columns, improved) else "",
    )
