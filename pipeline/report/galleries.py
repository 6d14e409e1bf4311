"""Queries worth looking at: what a model ranks first, where it fails hardest, where it succeeds."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pipeline.evaluation.findings import BestHits
from pipeline.evaluation.rank_file import RankRecord
from pipeline.evaluation.truth import Direction
from pipeline.report.shelf import Entry, Shelf


def build_galleries(
    hits: Mapping[Direction, BestHits], record: RankRecord, shelf: Shelf
) -> list[dict[str, Any]]:
    """The galleries caption -> images and image -> captions of one model."""
    images = record.image_ids, record.image_groups, shelf.image
    captions = record.caption_ids, record.caption_groups, shelf.caption
    galleries = []
    both = ("t2i", hits["t2i"], captions, images), ("i2t", hits["i2t"], images, captions)
    for way, best, queries, items in both:
        shown = [_shown(best, row, queries, items) for row in range(len(best.queries))]
        gallery = {"direction": way, "failed": best.failed, "queries": len(queries[0])}
        gallery["failures"] = [query for query in shown if query["rank"] > 1]
        gallery["successes"] = [query for query in shown if query["rank"] == 1]
        galleries.append(gallery)
    return galleries


# The images or the captions that were ranked: ids, groups, and how each is shown.
_Side = tuple[Sequence[str], Sequence[str], Callable[[str], Entry]]


def _shown(hits: BestHits, row: int, queries: _Side, items: _Side) -> dict[str, Any]:
    """A query for the page. rank: of its best true item; ranked: how many items were; truth: the
    best true item if it is beyond the hits."""
    (own_ids, own_groups, own_entry), (ids, groups, entry) = queries, items
    query, rank = int(hits.queries[row]), int(hits.ranks[row])
    ranked = zip(hits.items[row].tolist(), hits.scores[row].tolist(), strict=True)
    *first, best = [
        {
            "entry": entry(ids[item]),
            "place": position,  # 1 is first
            "score": shown_score(score),
            "is_true": groups[item] == own_groups[query],
        }
        for position, (item, score) in enumerate(ranked, start=1)
    ]
    truth = None if rank <= len(first) else best | {"place": rank}
    shown = {"entry": own_entry(own_ids[query]), "rank": rank, "ranked": len(ids)}
    return shown | {"hits": first, "truth": truth}


def shown_score(score: float) -> str:
    """Three decimals, which suit cosines, and another form for scores they would hide."""
    fits = score == 0 or 0.0005 <= abs(score) < 1000
    return f"{score:.3f}" if fits else f"{score:.1e}"
