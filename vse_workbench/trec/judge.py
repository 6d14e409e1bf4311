"""A run judged by qrels, with the metrics of this project.

Unlike a matrix of scores a run may end early: a true item that it does not list is never found. Of
equal scores true items come last, where trec_eval goes by the ids of the documents.
"""

import math
from collections.abc import Mapping
from typing import Any

from pipeline.runtime.errors import WorkbenchError
from vse_workbench.trec.read import Qrels, Run

DEPTHS = (1, 5, 10)
TITLES = {
    **{f"r{depth}": f"R@{depth}" for depth in DEPTHS},
    "mapr": "mAP@R",
    "rprecision": "R-P",
    "map": "mAP",
    "ndcg": "nDCG",
}


def judged(run: Run, qrels: Qrels) -> dict[str, Any]:
    """Means over the queries that have a true item, all in percent.

    A query that the run does not answer counts 0. r1, r5, r10: whether a true item is among the
    first K (trec_eval's success_K); mapr, rprecision and ndcg as in `pipeline.evaluation`; map: the
    precisions at the ranks of all true items, summed, over their number (trec_eval's map).

    Args:
        run: by query the scores of its items.
        qrels: by query the levels of its items; true are those above 0.

    Returns:
        The figures, `queries` that were judged, and `unanswered` ones.

    Raises:
        WorkbenchError: no query has a true item, or the run answers none of those that have.
    """
    true = {
        query: {item: level for item, level in levels.items() if level > 0}
        for query, levels in qrels.items()
    }
    true = {query: items for query, items in true.items() if items}
    unanswered = [query for query in true if not run.get(query)]
    if not true or len(unanswered) == len(true):
        raise WorkbenchError(
            f"{len(true):,} queries with a true item, {len(unanswered):,} of them not in the run",
            "give the run and the qrels of one direction and one split",
        )
    rows = [_figures(run.get(query, {}), items) for query, items in true.items()]
    means = {name: 100 * math.fsum(row[name] for row in rows) / len(rows) for name in TITLES}
    return {**means, "queries": len(rows), "unanswered": len(unanswered)}


def _figures(scores: Mapping[str, float], true: Mapping[str, int]) -> dict[str, float]:
    """The figures of one query as shares."""
    order = sorted(scores, key=lambda item: (-scores[item], true.get(item, 0)))
    grades = [true.get(item, 0) for item in order]
    hits = [rank for rank, grade in enumerate(grades, start=1) if grade]
    precisions = [(place / rank, rank) for place, rank in enumerate(hits, start=1)]
    count = len(true)
    return {
        **{f"r{depth}": float(any(rank <= depth for rank in hits)) for depth in DEPTHS},
        "mapr": math.fsum(p for p, rank in precisions if rank <= count) / count,
        "rprecision": sum(rank <= count for rank in hits) / count,
        "map": math.fsum(p for p, _ in precisions) / count,
        "ndcg": _gain(grades) / _gain(sorted(true.values(), reverse=True)),
    }


def _gain(grades: list[int]) -> float:
    return math.fsum(grade / math.log2(1 + rank) for rank, grade in enumerate(grades, start=1))
