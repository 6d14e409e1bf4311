"""Every metric of every query, from scores."""

from collections.abc import Sequence

import numpy as np

from pipeline.evaluation.figures import Measured, extended_rows, plain_rows
from pipeline.evaluation.row import Metric
from pipeline.scores.groups import Groups, group_codes
from pipeline.scores.positives import Positives
from pipeline.scores.ranking import DIRECTIONS, Direction, Ranking
from pipeline.scores.ranks import Wanted, checked_tiles, of_groups, of_positives, ranked
from pipeline.scores.tiles import Tiles, as_tiles


def measure(
    scores: np.ndarray | Tiles,
    image_groups: Groups,
    caption_groups: Groups,
    metrics: Sequence[Metric] | None = None,
) -> dict[Direction, Measured]:
    """Metrics of all queries of a score matrix, both directions.

    Args:
        scores: (N images, M captions) floats, larger is better.
        image_groups: (N,) integers or strings: an image and a caption belong together when their
            groups are equal.
        caption_groups: (M,) integers or strings.
        metrics: what is measured, None for all but the extended.

    Raises:
        WorkbenchError: empty or ill-shaped input, NaN or infinity, a query without true item, a
            metric that gives a query no number it can have.
    """
    codes = group_codes(image_groups, caption_groups)
    tiles = checked_tiles(scores, len(codes[0]), len(codes[1]))
    found = measured_of([of_groups(tiles, *codes, way) for way in DIRECTIONS], metrics)
    return dict(zip(DIRECTIONS, found, strict=True))


def measure_direction(
    scores: np.ndarray | Tiles, images: np.ndarray, captions: np.ndarray, way: Direction
) -> Measured:
    """All metrics of the queries of one direction.

    Args:
        scores: (N images, M captions) floats, larger is better.
        images: (N,) group numbers; every query needs an item of its group.
        captions: (M,) group numbers.
        way: whether images or captions are the queries.

    Raises:
        WorkbenchError: as `measure`.
    """
    tiles = checked_tiles(scores, len(images), len(captions))
    return measured_of([of_groups(tiles, images, captions, way)])[0]


def measure_judged(scores: np.ndarray | Tiles, positives: Positives, way: Direction) -> Measured:
    """All extended metrics of the queries of one direction that have positives, in their order.

    Args:
        scores: (N images, M captions) floats, larger is better.
        positives: true items, at least one of one query.
        way: whether images or captions are the queries.

    Raises:
        WorkbenchError: as `measure`.
    """
    return measured_of([of_positives(as_tiles(scores), positives, way)])[0]


def measured_of(
    wanted: Sequence[Wanted], metrics: Sequence[Metric] | None = None
) -> list[Measured]:
    """The metrics of each, their scores gone through together.

    Args:
        wanted: as `ranks.ranked` takes them; of those with grades all metrics are measured.
        metrics: of the others, None for all but the extended.

    Raises:
        WorkbenchError: as `measure`.
    """
    return [
        _measured(ranking, (metrics or plain_rows()) if one.grade is None else extended_rows())
        for ranking, one in zip(ranked(wanted), wanted, strict=True)
    ]


def _measured(ranking: Ranking, metrics: Sequence[Metric]) -> Measured:
    values = {metric.name: metric.measured(ranking) for metric in metrics}
    return Measured(ranking.ranks[:, 0].astype(np.int64), values)
