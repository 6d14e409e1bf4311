"""How much of what exact search finds an index finds, too."""

from collections.abc import Sequence

import numpy as np

from pipeline.search.index import SHORTLIST, Index, best

BLOCK = 64  # queries scored together


def recalls(
    index: Index, queries: np.ndarray, tops: Sequence[int], count: int = SHORTLIST
) -> list[float]:
    """Mean share (0 to 1) of the exact nearest that an index of N vectors, asked for `count`, finds
    for queries (Q, K) float32, by `tops`. A vector as near as the last of the exact ones counts."""
    assert index.nearest is not None
    shares = np.zeros(len(tops))
    for start in range(0, len(queries), BLOCK):
        block = queries[start : start + BLOCK]
        scores = index.embeddings @ block.T  # (N, B)
        for column, rows in enumerate(index.nearest(block, count)):
            own = np.ascontiguousarray(scores[:, column])
            found = own[np.sort(rows[rows >= 0])]
            found = found[best(found, max(tops))]
            exact = own[best(own, max(tops))]
            for place, top in enumerate(tops):
                last = exact[:top][-1]
                shares[place] += (found[:top] >= last).sum() / len(exact[:top])
    return [float(share) for share in shares / len(queries)]
