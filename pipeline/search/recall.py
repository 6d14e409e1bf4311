"""How much of what exact search finds an index finds, too."""

from collections.abc import Sequence

import numpy as np

from pipeline.search.index import SHORTLIST, Index, best

BLOCK = 64  # queries scored together


def recalls(
    index: Index, queries: np.ndarray, tops: Sequence[int], count: int = SHORTLIST
) -> list[float]:
    """Mean share of the exact nearest that is among as many found, by each of several numbers.

    A vector that is as near as the last of the exact ones counts as found in its place, so that
    which of several equal vectors is brought makes no difference.

    Args:
        index: of N vectors, with what finds their neighbours.
        queries: (Q, K) float32, Q at least 1.
        tops: how many nearest are looked at.
        count: how many the index is asked for, the best of which are the found ones.

    Returns:
        A share from 0 to 1 for each of `tops`.
    """
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
