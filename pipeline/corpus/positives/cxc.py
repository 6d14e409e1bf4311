"""Crisscrossed Captions, sits_test.csv (Parekh et al. 2021): images and captions of MS-COCO's 5K
test images with a rating from 0 to 5 of how well they fit, the mean of several people's.

    caption,image,agg_score,sampling_method
    COCO_val2014:sentid:732091,COCO_val2014_000000365325.jpg,2.2,c2i_intrasim

Pairs of 3 and above are positive in the paper; their rating is their grade.
"""

from pathlib import Path

import pandas as pd

from pipeline.corpus.dataset.positives import read_csv
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.text import Problems

NEEDS_PATH = True
EXPECTED = (
    "expected is CxC's sits_test.csv or sits_val.csv: caption,image,agg_score,sampling_method"
)
PATTERNS = {  # of numbers of 64 bits
    "caption": r"[A-Za-z0-9_]+:sentid:([0-9]{1,18})",
    "image": r"(?:[A-Za-z0-9_]*_)?([0-9]{1,18})\.jpg",
    "agg_score": r"([0-9]+(?:\.[0-9]+)?)",
}
COLUMNS = tuple(PATTERNS)


def read(path: Path, threshold: float) -> pd.DataFrame:
    """The pairs that people rated well enough.

    Args:
        path: sits_test.csv or sits_val.csv.
        threshold: the least rating, 0 to 5; the paper's is 3.

    Returns:
        Columns image and caption (MS-COCO's numbers), grade (the highest rating of the pair), i2t
        and t2i (true).

    Raises:
        WorkbenchError: no such file, lines of another form, or no pair rated so high.
    """
    if not path.is_file():
        raise WorkbenchError(f"corpus.positives_path: {path}: not a file", EXPECTED)
    table = read_csv(path, EXPECTED)
    if not set(COLUMNS) <= set(table.columns):
        raise WorkbenchError(f"{path}: without the columns {', '.join(COLUMNS)}", EXPECTED)
    parts = pd.DataFrame(
        {name: table[name].str.extract(f"^(?:{PATTERNS[name]})$", expand=False) for name in COLUMNS}
    )
    ratings = parts["agg_score"].astype(float)
    problems = Problems(str(path))
    problems.add("lines of another format", table.index[parts.isna().any(axis=1) | (ratings > 5)])
    problems.raise_if_any(EXPECTED)
    numbers = parts.astype({"caption": "int64", "image": "int64"}).assign(grade=ratings)
    best = numbers.groupby(["image", "caption"], sort=False)["grade"].max().reset_index()
    kept = best[best["grade"] >= threshold].reset_index(drop=True)
    if kept.empty:
        raise WorkbenchError(
            f"{path}: no pair is rated corpus.positives_threshold = {threshold:g} or above",
            "the paper's threshold is 3",
        )
    return kept.assign(i2t=True, t2i=True)
