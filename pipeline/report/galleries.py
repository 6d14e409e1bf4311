"""Queries worth looking at: what a model ranks first, where it fails hardest, where it succeeds."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from pipeline.report.shelf import Entry, Shelf
from pipeline.scores.file import SplitScores
from pipeline.scores.groups import group_codes
from pipeline.scores.ranks import Ranks
from pipeline.scores.tiles import as_tiles

FAILURES = 6  # queries per gallery
SUCCESSES = 2
TOP = 5  # items per query


@dataclass(frozen=True)
class Hit:
    """An item in the ranking of a query.

    Attributes:
        entry: the item.
        place: 1 is first.
        score: of the pair.
        is_true: whether it belongs to the query.
    """

    entry: Entry
    place: int
    score: float
    is_true: bool

    @property
    def shown_score(self) -> str:
        """Three decimals, which suit cosines, and another form for scores they would hide."""
        fits = self.score == 0 or 0.0005 <= abs(self.score) < 1000
        return f"{self.score:.3f}" if fits else f"{self.score:.1e}"


@dataclass(frozen=True)
class Query:
    """A query and what it found.

    Attributes:
        entry: the query.
        rank: of its best true item, 1 is first.
        items: number of items ranked.
        hits: its first items.
        truth: the best true item if it is beyond the hits.
    """

    entry: Entry
    rank: int
    items: int
    hits: list[Hit]
    truth: Hit | None


@dataclass(frozen=True)
class Gallery:
    """One direction of one model.

    Attributes:
        direction: i2t or t2i.
        failures: queries not ranked first, by falling rank.
        successes: queries ranked first.
        failed: how many of all queries are not.
        queries: how many there are.
    """

    direction: str
    failures: list[Query]
    successes: list[Query]
    failed: int
    queries: int


def build_galleries(split: SplitScores, ranks: Ranks, shelf: Shelf) -> list[Gallery]:
    """The galleries caption -> images and image -> captions of one model.

    Args:
        split: its scores, (N images, M captions).
        ranks: (N,) and (M,) of all queries of the split, as `retrieval_ranks` gives them for its
            scores.
        shelf: the corpus.
    """
    images, captions = group_codes(split.image_groups, split.caption_groups)
    tiles = as_tiles(split.scores)
    to_images = _Ranking(tiles.caption_line, captions, images, split.caption_ids, split.image_ids)
    to_captions = _Ranking(tiles.image_line, images, captions, split.image_ids, split.caption_ids)
    return [
        to_images.gallery("t2i", ranks.t2i, shelf.caption, shelf.image),
        to_captions.gallery("i2t", ranks.i2t, shelf.image, shelf.caption),
    ]


def hardest(ranks: np.ndarray, groups: np.ndarray) -> list[int]:
    """Queries not ranked first, largest rank first, at most one of each group, FAILURES at most.

    One of a group, lest the captions of a single odd image fill the gallery.
    """
    chosen: dict[int, int] = {}
    for query in np.argsort(-ranks, kind="stable").tolist():
        if ranks[query] == 1 or len(chosen) == FAILURES:
            break
        chosen.setdefault(int(groups[query]), query)
    return list(chosen.values())


def successful(ranks: np.ndarray) -> list[int]:
    """SUCCESSES queries ranked first, evenly spaced among all of them: not picked by hand."""
    found = np.flatnonzero(ranks == 1)
    if len(found) <= SUCCESSES:
        return [int(query) for query in found]
    steps = np.linspace(0, len(found) - 1, SUCCESSES + 2)[1:-1]
    return [int(query) for query in np.unique(found[steps.astype(int)])]


@dataclass(frozen=True)
class _Ranking:
    """One direction: the scores (J,) of a query, group numbers and ids of Q queries and J items."""

    scores_of: Callable[[int], np.ndarray]
    query_groups: np.ndarray
    item_groups: np.ndarray
    query_ids: Sequence[str]
    item_ids: Sequence[str]

    def gallery(
        self,
        direction: str,
        ranks: np.ndarray,
        query_entry: Callable[[str], Entry],
        item_entry: Callable[[str], Entry],
    ) -> Gallery:
        def shown(query: int) -> Query:
            scores, entry = self.scores_of(query), query_entry(self.query_ids[query])
            hits = self._hits(query, scores, item_entry)
            found = any(hit.is_true for hit in hits)
            truth = None if found else self._truth(query, scores, item_entry)
            return Query(entry, int(ranks[query]), len(self.item_ids), hits, truth)

        failures = [shown(query) for query in hardest(ranks, self.query_groups)]
        successes = [shown(query) for query in successful(ranks)]
        return Gallery(direction, failures, successes, int((ranks > 1).sum()), len(ranks))

    def _order(self, query: int, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Items from first to last, and whether each item is true.

        Of equal scores the false item comes first, as in the ranks: ties count against the model.
        """
        true = self.item_groups == self.query_groups[query]
        return np.lexsort((true, -scores)), true

    def _hits(self, query: int, scores: np.ndarray, entry: Callable[[str], Entry]) -> list[Hit]:
        order, true = self._order(query, scores)
        return [
            Hit(entry(self.item_ids[item]), place, float(scores[item]), bool(true[item]))
            for place, item in enumerate(order[:TOP].tolist(), start=1)
        ]

    def _truth(self, query: int, scores: np.ndarray, entry: Callable[[str], Entry]) -> Hit:
        order, true = self._order(query, scores)
        place = int(np.argmax(true[order]))
        item = int(order[place])
        return Hit(entry(self.item_ids[item]), place + 1, float(scores[item]), True)
