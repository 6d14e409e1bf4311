"""Scores of a model as runs, and the pairs of the corpus as qrels. trec_eval breaks ties by ids;
here they stand against the model: of equal scores those of true items are lowered by the least
there is."""

import re
from pathlib import Path

import numpy as np

from pipeline.evaluation.score_file import SplitScores
from pipeline.evaluation.truth import Direction, Positives, group_codes, true_pairs
from pipeline.runtime.files import atomic_path, write_text

THOUSANDTHS = 1000  # qrels hold whole numbers; nDCG is the same for grades of any common scale
_SPECIAL = re.compile(r"[\s%]")


def escape_id(name: str) -> str:
    """An id without white space: `%20` for a blank; `urllib.parse.unquote` gives the id back."""
    return _SPECIAL.sub(lambda match: "".join(f"%{byte:02X}" for byte in match[0].encode()), name)


def write_run(
    path: Path, split: SplitScores, scores: np.ndarray, way: Direction, depth: int, tag: str
) -> int:
    """Write `query Q0 item rank score tag` lines.

    Args:
        path: the file.
        split: ids and groups of N images and M captions.
        scores: (N, M) float32.
        way: i2t or t2i: whose rows are the queries.
        depth: items of a query at most, the best ones; 0 for all.
        tag: the run's name.

    Returns:
        How many queries have a tie among their items.
    """
    queries, items = _escaped_ids(split, way)
    groups = np.asarray(split.image_groups), np.asarray(split.caption_groups)
    own, others = groups if way == "i2t" else groups[::-1]
    lines = scores if way == "i2t" else scores.T
    tied = 0
    with atomic_path(path) as temporary, open(temporary, "w", encoding="utf-8") as file:
        for name, group, line in zip(queries, own, lines, strict=True):
            order = np.lexsort((others == group, -line))[: depth or None]
            lowered = strictly_falling(line[order])
            tied += bool((lowered != line[order]).any())
            ranked = zip(order.tolist(), lowered.astype(float).tolist(), strict=True)
            for rank, (item, score) in enumerate(ranked, start=1):
                file.write(f"{name} Q0 {items[item]} {rank} {score!r} {tag}\n")
    return tied


def write_pairs(path: Path, split: SplitScores, way: Direction) -> None:
    """Write `query 0 item 1` lines: the corpus's own pairs of images and captions.

    Args:
        path: the file.
        split: ids and groups.
        way: i2t or t2i.
    """
    images, captions = group_codes(split.image_groups, split.caption_groups)
    own, others = (images, captions) if way == "i2t" else (captions, images)
    query, item = true_pairs(own, others)
    _write_qrels(path, split, way, (query, item, np.ones(len(query), int)))


def write_positives(path: Path, split: SplitScores, positives: Positives, way: Direction) -> None:
    """Write `query 0 item grade` lines of extended positives.

    Args:
        path: the file.
        split: ids.
        positives: of this direction; fractions are written in thousandths.
        way: i2t or t2i.
    """
    grades = positives.grade
    whole = bool((grades == np.round(grades)).all())
    levels = np.round(grades if whole else grades * THOUSANDTHS).astype(int)
    _write_qrels(path, split, way, (positives.query, positives.item, levels))


def strictly_falling(scores: np.ndarray) -> np.ndarray:
    """Descending scores (J,) float32, each lowered by the least that makes all different."""
    lowered = scores.astype(np.float32)
    for at in np.flatnonzero(scores[1:] == scores[:-1]) + 1:
        below = np.nextafter(lowered[at - 1], np.float32(-np.inf))
        while at < len(lowered) and lowered[at] >= lowered[at - 1]:
            lowered[at] = below
            at = at + 1
            below = np.nextafter(below, np.float32(-np.inf))
    return lowered


def _write_qrels(
    path: Path,
    split: SplitScores,
    way: Direction,
    columns: tuple[np.ndarray, np.ndarray, np.ndarray],
) -> None:
    """columns: (P,) numbers of queries, of items, and levels."""
    queries, items = _escaped_ids(split, way)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    write_text(path, "".join(f"{queries[q]} 0 {items[i]} {level}\n" for q, i, level in rows))


def _escaped_ids(split: SplitScores, way: Direction) -> tuple[list[str], list[str]]:
    """The ids of the queries and of the items of a direction."""
    images = map(escape_id, split.image_ids)
    captions = map(escape_id, split.caption_ids)
    return ([*images], [*captions]) if way == "i2t" else ([*captions], [*images])
