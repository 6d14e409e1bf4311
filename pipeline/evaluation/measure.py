"""Every metric of every query, from scores."""

from collections.abc import Sequence

import numpy as np

from pipeline.evaluation.figures import Measured, extended_rows, plain_rows
from pipeline.evaluation.row import Metric
from pipeline.scores.groups import Groups, group_codes
from pipeline.scores.ranking import DIRECTIONS, Direction, Ranking
from pipeline.scores.ranks import Wanted, checked_tiles, of_groups, ranked
from pipeline.scores.tiles import Tiles


def measure(
    scores: np.ndarray | Tiles,
    image_groups: Groups,
    caption_groups: Groups,
    metrics: Sequence[Metric] | None = None,
) -> dict[Direction, Measured]:
    """Metrics (None: all but the extended) of all queries of scores (N images, M captions), by
    direction. An image and a caption belong together when their groups (N,) and (M,) are equal.
    Errors are those of pipeline.scores.ranks.retrieval_ranks."""
    codes = group_codes(image_groups, caption_groups)
    tiles = checked_tiles(scores, len(codes[0]), len(codes[1]))
    measured = measured_of([of_groups(tiles, *codes, way) for way in DIRECTIONS], metrics)
    return dict(zip(DIRECTIONS, measured, strict=True))


def measured_of(
    wanted: Sequence[Wanted], metrics: Sequence[Metric] | None = None
) -> list[Measured]:
    """The metrics of each of `wanted`, their scores gone through together: all of those with
    grades; of the others `metrics`, None for all but the extended."""
    return [
        _measured(ranking, (metrics or plain_rows()) if asked.grade is None else extended_rows())
        for ranking, asked in zip(ranked(wanted), wanted, strict=True)
    ]


def _measured(ranking: Ranking, metrics: Sequence[Metric]) -> Measured:
    values = {metric.name: metric.measured(ranking) for metric in metrics}
    return Measured(ranking.ranks[:, 0].astype(np.int64), values)
