"""Two runs compared in a program, as `vse compare` does it."""

from pathlib import Path

from pipeline.comparison.paired import RESAMPLES, Difference, paired_differences
from pipeline.comparison.revisions import load_run
from pipeline.runtime.errors import WorkbenchError


def compare_runs(
    a: Path | str,
    b: Path | str,
    criterion: str = "naive",
    resamples: int = RESAMPLES,
    confidence: float = 0.95,
    seed: int = 0,
) -> list[Difference]:
    """The differences b - a of all figures, with intervals of a paired bootstrap.

    a, b: each a rank file (.h5), a metrics file (.json) of the dvc.yaml here, or REVISION:MODEL;
    criterion: of inference, which both were evaluated with; resamples: draws of the test images, at
    least 100; confidence: share of the draws inside an interval, from 0.5 to below 1.

    Raises:
        WorkbenchError: a file that is none of these, a criterion that it lacks, two runs of other
            images, captions or protocols, a number out of its range.
    """
    if resamples < 100 or not 0.5 <= confidence < 1:
        text = f"resamples = {resamples}, confidence = {confidence:g}"
        raise WorkbenchError(f"{text}: allowed are 100 and more, and from 0.5 to below 1")
    first, second = (load_run(str(run), None, criterion)[0] for run in (a, b))
    return paired_differences(first, second, resamples, confidence, seed)
