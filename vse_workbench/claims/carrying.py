"""Code that was changed and computes the same: rows of its states may stand in one pair.

A run that is made again, with the same settings, data, seed and choice of the search under other
code, either gives every test query the rank that it had, or it does not. Where RERUNS_NEEDED runs
of a list of code gave the same, and none another one, the two lists count as one.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from vse_workbench.claims.ledger import SEARCH_SEEDS
from vse_workbench.claims.ranks import read_ranks
from vse_workbench.claims.results import COLLAPSED, Kept, Row, Run, State

RERUNS_NEEDED = 2  # runs of a list of code, made again
Codes = Mapping[str, str]  # code of rows -> the newest code that counts as the same


@dataclass(frozen=True)
class Rerun:
    """A run, and the same one under other code."""

    old: Row
    new: Row
    is_same: bool  # the rank of every query


def find_reruns(kept: Kept) -> list[Rerun]:
    """All runs that were made again, in the order of the table."""
    found: dict[Run, list[Row]] = {}
    for row in kept.rows:
        if row.seed not in SEARCH_SEEDS:  # its ranks are not kept
            found.setdefault(row.run, []).append(row)
    pairs = [pair for rows in found.values() for pair in pairwise(rows)]
    return [Rerun(old, new, _is_same(kept, old, new)) for old, new in pairs]


def equal_codes(runs: Iterable[Rerun]) -> dict[str, str]:
    """By the code of older runs the newest one that gives the same; others are left out."""
    results: dict[tuple[str, str], list[bool]] = {}
    last: dict[str, int] = {}  # by code, the place of the last run that was made again with it
    for place, run in enumerate(runs):
        results.setdefault((run.old.code, run.new.code), []).append(run.is_same)
        last[run.new.code] = place
    groups: list[set[str]] = []
    for pair, same in results.items():
        if all(same) and len(same) >= RERUNS_NEEDED:
            touching = [group for group in groups if group & set(pair)]
            groups = [group for group in groups if group not in touching]
            groups.append(set(pair).union(*touching))
    codes: dict[str, str] = {}
    for group in groups:
        newest = max(group, key=lambda code: last.get(code, -1))
        codes |= dict.fromkeys(sorted(group - {newest}), newest)
    return codes


def key_of(row: Row, codes: Codes) -> str:
    """The settings and the code of a row, as `keys_of` has them.

    Args:
        row: of a run.
        codes: older code by the newest that counts as the same.

    Returns:
        Both digests, a dot between them.
    """
    return f"{row.digest}.{codes.get(row.code, row.code)}"


def keys_of(state: State, codes: Codes) -> frozenset[str]:
    """The keys of a state, each by the newest code that counts as the same.

    Args:
        state: a commit and its keys.
        codes: older code by the newest that counts as the same.

    Returns:
        Keys as of `key_of`.
    """
    parts = (key.partition(".") for key in state.keys)
    return frozenset(f"{digest}.{codes.get(code, code)}" for digest, _, code in parts)


def _is_same(kept: Kept, old: Row, new: Row) -> bool:
    paths = [kept.ranks / row.ranks for row in (old, new)]
    if old.outcome == new.outcome == COLLAPSED and not any(path.exists() for path in paths):
        return True
    if not all(path.exists() for path in paths):
        return False
    a, b = (read_ranks(path).ranks for path in paths)
    return a.keys() == b.keys() and all(np.array_equal(a[way], b[way]) for way in a)
