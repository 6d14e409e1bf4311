"""Every metric of every query, from scores."""

from collections.abc import Sequence

import numpy as np

from pipeline.evaluation.metrics import EXTENDED, METRICS, Measured, joined
from pipeline.evaluation.row import Metric
from pipeline.scores.groups import Groups, group_codes
from pipeline.scores.positives import Positives
from pipeline.scores.ranking import DIRECTIONS, Direction, Ranking
from pipeline.scores.ranks import BLOCK, judged_rankings, rankings


def measure(
    scores: np.ndarray, image_groups: Groups, caption_groups: Groups, block: int = BLOCK
) -> dict[Direction, Measured]:
    """All metrics of all queries of a score matrix, both directions.

    Args:
        scores: (N images, M captions) floats, larger is better.
        image_groups: (N,) integers or strings: an image and a caption belong together when their
            groups are equal.
        caption_groups: (M,) integers or strings.
        block: number of scores looked at at once, which bounds the memory beside `scores`.

    Raises:
        WorkbenchError: empty or ill-shaped input, NaN or infinity, a query without true item, a
            metric that gives a query no number it can have.
    """
    codes = group_codes(image_groups, caption_groups)
    return {way: measure_direction(scores, *codes, way, block) for way in DIRECTIONS}


def measure_direction(
    scores: np.ndarray,
    images: np.ndarray,
    captions: np.ndarray,
    way: Direction,
    block: int = BLOCK,
) -> Measured:
    """All metrics of the queries of one direction.

    Args:
        scores: (N images, M captions) floats, larger is better.
        images: (N,) group numbers; every query needs an item of its group.
        captions: (M,) group numbers.
        way: whether images or captions are the queries.
        block: number of scores looked at at once, which bounds the memory beside `scores`.

    Raises:
        WorkbenchError: as `measure`.
    """
    parts = rankings(scores, images, captions, way, block=block)
    return joined([_measured(part, METRICS) for part in parts])


def measure_judged(
    scores: np.ndarray, positives: Positives, way: Direction, block: int = BLOCK
) -> Measured:
    """All extended metrics of the queries of one direction that have positives, in their order.

    Args:
        scores: (N images, M captions) floats, larger is better.
        positives: true items, at least one of one query.
        way: whether images or captions are the queries.
        block: number of scores looked at at once, which bounds the memory beside `scores`.

    Raises:
        WorkbenchError: as `measure`.
    """
    parts = judged_rankings(scores, positives, way, block)
    return joined([_measured(part, EXTENDED) for part in parts])


def _measured(ranking: Ranking, metrics: Sequence[Metric]) -> Measured:
    values = {metric.name: metric.measured(ranking) for metric in metrics}
    return Measured(ranking.ranks[:, 0].astype(np.int64), values)
