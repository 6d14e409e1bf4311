"""Scores of a model as runs, and the pairs of the corpus as qrels. trec_eval breaks ties by ids;
here they stand against the model: of equal scores those of true items are lowered by the least
there is."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from pipeline.runtime.files import atomic_path, write_text
from pipeline.scores.file import SplitScores
from pipeline.scores.positives import Positives
from pipeline.scores.ranking import Direction

THOUSANDTHS = 1000  # qrels hold whole numbers; nDCG is the same for grades of any common scale
_SPECIAL = re.compile(r"[\s%]")


def escaped(name: str) -> str:
    """An id without white space: `%20` for a blank; `urllib.parse.unquote` gives the id back."""
    return _SPECIAL.sub(lambda match: "".join(f"%{byte:02X}" for byte in match[0].encode()), name)


def write_run(
    path: Path, split: SplitScores, scores: np.ndarray, way: Direction, depth: int, tag: str
) -> int:
    """Write `query Q0 item rank score tag` lines, the best `depth` items of a query, 0 for all, by
    scores (N, M) float32; how many queries have a tie among these."""
    queries, items = ids_of(split, way)
    names, tied = [escaped(name) for name in items], 0
    with atomic_path(path) as temporary, open(temporary, "w", encoding="utf-8") as file:
        for query, line, true in _lines(split, scores, way):
            order = np.lexsort((true, -line))[: depth or None]
            lowered = strictly_falling(line[order])
            tied += bool((lowered != line[order]).any())
            ranked = zip(order.tolist(), lowered.astype(float).tolist(), strict=True)
            for rank, (item, score) in enumerate(ranked, start=1):
                name = escaped(queries[query])
                file.write(f"{name} Q0 {names[item]} {rank} {score!r} {tag}\n")
    return tied


def write_pairs(path: Path, split: SplitScores, way: Direction) -> None:
    """Write `query 0 item 1` lines: the corpus's own pairs of images and captions."""
    queries, items = ids_of(split, way)
    lines = [
        f"{escaped(queries[query])} 0 {escaped(items[item])} 1\n"
        for query, _, true in _lines(split, split.matrix, way)
        for item in np.flatnonzero(true).tolist()
    ]
    write_text(path, "".join(lines))


def write_positives(path: Path, split: SplitScores, positives: Positives, way: Direction) -> None:
    """Write `query 0 item grade` lines of extended positives, fractions in thousandths."""
    queries, items = ids_of(split, way)
    query, item, grades = positives.pairs
    whole = bool((grades == np.round(grades)).all())
    levels = np.round(grades if whole else grades * THOUSANDTHS).astype(int)
    rows = zip(query.tolist(), item.tolist(), levels.tolist(), strict=True)
    lines = (f"{escaped(queries[q])} 0 {escaped(items[i])} {level}\n" for q, i, level in rows)
    write_text(path, "".join(lines))


def strictly_falling(scores: np.ndarray) -> np.ndarray:
    """Descending scores (J,) float32, each lowered by the least that makes all different."""
    lowered = scores.astype(np.float32)
    for at in np.flatnonzero(scores[1:] == scores[:-1]) + 1:
        below = np.nextafter(lowered[at - 1], np.float32(-np.inf))
        while at < len(lowered) and lowered[at] >= lowered[at - 1]:
            lowered[at] = below
            at, below = at + 1, np.nextafter(below, np.float32(-np.inf))
    return lowered


def ids_of(split: SplitScores, way: Direction) -> tuple[Sequence[str], Sequence[str]]:
    """The ids of the queries and of the items of a direction."""
    both = split.image_ids, split.caption_ids
    return both if way == "i2t" else both[::-1]


def _lines(
    split: SplitScores, scores: np.ndarray, way: Direction
) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Of every query its number, its scores of all items, and which of these are true."""
    images, captions = np.asarray(split.image_groups), split.caption_groups
    queries, items = (images, captions) if way == "i2t" else (captions, images)
    for number, group in enumerate(queries):
        yield number, scores[number] if way == "i2t" else scores[:, number], items == group
