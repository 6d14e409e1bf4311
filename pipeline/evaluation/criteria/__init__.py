"""The inference criteria, a file each: its name is what `inference.criteria` of params.yaml lists.

`views(scores, queries, settings) -> list[Scores]` gives the scores to rank, (N, M), for each axis
of queries, IMAGES or CAPTIONS; `reference(s, settings)` is the same in plain floats, queries in
rows: what the tests compare it with. A file may set, as plain values:

- TRANSDUCTIVE = False: the score of a pair does not depend on the other queries of the set.
- SINGLE_QUERY = True: it can rank the items of one query put beside the others, as search does.
- WHOLE_MATRIX = True: it needs all scores at once, not tiles of them.
"""

from pipeline.runtime.registry import Registry

CRITERIA = Registry(
    "pipeline.evaluation.criteria",
    "criterion",
    "views",
    "views(scores, queries, settings) -> list[Scores]",
    first="naive",
)


def single_query_criteria() -> list[str]:
    """The criteria that can rank what one query finds."""
    return [name for name in CRITERIA if CRITERIA.constant(name, "SINGLE_QUERY", False)]
