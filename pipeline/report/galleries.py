"""Queries worth looking at: what a model ranks first, where it fails hardest, where it succeeds."""

from collections.abc import Callable, Mapping, Sequence

from pipeline.evaluation.findings import TopResults
from pipeline.evaluation.rank_file import RankRecord
from pipeline.evaluation.truth import Direction
from pipeline.report.shelf import CorpusLookup, Entry


def build_galleries(
    hits: Mapping[Direction, TopResults], record: RankRecord, shelf: CorpusLookup
) -> list[dict[str, object]]:
    """The galleries caption -> images and image -> captions of one model.

    Args:
        hits: by direction the best items of queries worth looking at.
        record: ids and groups of the ranked images and captions.
        shelf: the corpus.

    Returns:
        Both galleries: `failures` and `successes`, how many of `queries` `failed`.
    """
    images = record.image_ids, record.image_groups, shelf.image
    captions = record.caption_ids, record.caption_groups, shelf.caption
    galleries = []
    both = ("t2i", hits["t2i"], captions, images), ("i2t", hits["i2t"], images, captions)
    for way, best, queries, items in both:
        shown = [_query_for_page(best, row, queries, items) for row in range(len(best.queries))]
        ranked = list(zip(shown, best.ranks.tolist(), strict=True))
        gallery = {
            "direction": way,
            "failed": best.failed,
            "queries": len(queries[0]),
            "failures": [query for query, rank in ranked if rank > 1],
            "successes": [query for query, rank in ranked if rank == 1],
        }
        galleries.append(gallery)
    return galleries


# The images or the captions that were ranked: ids, groups, and how each is shown.
_Side = tuple[Sequence[str], Sequence[str], Callable[[str], Entry]]


def _query_for_page(hits: TopResults, row: int, queries: _Side, items: _Side) -> dict[str, object]:
    """A query for the page. rank: of its best true item; ranked: how many items were; truth: the
    best true item if it is beyond the hits."""
    own_ids, own_groups, own_entry = queries
    ids, groups, entry = items
    query = int(hits.queries[row])
    rank = int(hits.ranks[row])
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
