"""Exact evaluation of a matrix of scores, for programs: no files, no pipeline, no torch."""

from collections.abc import Sequence

import numpy as np

from pipeline.evaluation import protocol
from pipeline.evaluation.criterion import Criterion
from pipeline.evaluation.metrics import Metric
from pipeline.evaluation.protocol import Evaluation
from pipeline.evaluation.score_file import SplitScores
from pipeline.evaluation.truth import Groups, group_codes
from pipeline.runtime.errors import WorkbenchError


def evaluate(
    scores: np.ndarray | SplitScores,
    groups: Groups | None = None,
    image_groups: Groups | None = None,
    *,
    folds: int = 1,
    resamples: int = 0,
    confidence: float = 0.95,
    seed: int = 0,
    criteria: Sequence[Criterion] = (Criterion("naive"),),
    metrics: Sequence[Metric] | None = None,
) -> Evaluation:
    """Recalls, ranks and intervals of a matrix of scores.

    Args:
        scores: (N images, M captions) floats, larger is better; or a split of a score file, which
            has its groups.
        groups: (M,) what each caption belongs to: the row of its image, from 0, or with
            `image_groups` anything.
        image_groups: (N,) integers or strings. An image and a caption belong together when their
            groups are equal, so that rows may be the same image, or other images of one person.
            None: every row is a group of its own.
        folds: how many, each ranked by itself; they must divide the images.
        resamples: bootstrap draws of the test images, 0 for no intervals.
        confidence: share of the draws inside an interval, between 0 and 1.
        seed: of the draws.
        criteria: by which the scores are ranked.
        metrics: None for all but the extended.

    Returns:
        Figures in percent under every criterion, `metrics["naive"]["i2t"]["r1"]`, and intervals.

    Raises:
        WorkbenchError: scores that are not finite or of another shape, an image or a caption that
            belongs to nothing, folds that do not divide the images.
    """
    split = scores if isinstance(scores, SplitScores) else split_of(scores, groups, image_groups)
    return protocol.evaluate(
        split,
        folds=folds,
        resamples=resamples,
        confidence=confidence,
        seed=seed,
        criteria=criteria,
        metrics=metrics,
    )


def split_of(
    scores: np.ndarray, groups: Groups | None, image_groups: Groups | None = None
) -> SplitScores:
    """A matrix of scores as a split whose images and captions are numbered.

    Args:
        scores: (N images, M captions) floats.
        groups: (M,) of the captions.
        image_groups: (N,) of the images, None: their rows.

    Returns:
        The split.

    Raises:
        WorkbenchError: no groups, no matrix, an image or a caption that belongs to nothing.
    """
    matrix = np.asarray(scores)
    if groups is None:
        raise WorkbenchError(
            "groups: missing; they say which image each caption belongs to",
            "evaluate(scores, [0, 0, 1]): captions 0 and 1 describe image 0, caption 2 image 1",
        )
    if matrix.ndim != 2:
        raise WorkbenchError(
            f"scores of shape {matrix.shape}: must be a matrix, images by captions"
        )
    owned = np.arange(len(matrix)) if image_groups is None else image_groups
    images, captions = group_codes(owned, groups)
    first = {code: row for row, code in reversed([*enumerate(images.tolist())])}
    return SplitScores(
        scores=matrix,
        image_ids=[f"image {row}" for row in range(len(images))],
        caption_ids=[f"caption {row}" for row in range(len(captions))],
        caption_image_ids=[f"image {first[code]}" for code in captions.tolist()],
        image_groups=images,
    )
