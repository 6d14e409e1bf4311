"""Which image or caption of the corpus each row of another program's file is about."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pandas as pd

from pipeline.corpus.tables import in_split
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.text import Problems

SCORED = ("val", "test")
Places = dict[str, np.ndarray]


def places(
    table: pd.DataFrame, key: str, ids: Sequence[str] | None, count: int, needed: str, where: str
) -> Places:
    """Where the rows of a file belong in the splits that are scored: (count,) int64, -1 for none.
    ids: None: rows are those of the needed split, or of the whole table, in its order; needed: the
    split that must be there whole; the other one is there whole or not at all."""
    if ids is None:
        part = in_split(table, needed)
        if count not in (len(part), len(table)):
            raise WorkbenchError(
                f"{where}: {count:,} rows without ids; the corpus has {len(part):,} in its "
                f"{needed} split and {len(table):,} in all",
                "without ids the rows are those of one of these, in the order of the corpus",
            )
        ids = list((part if count == len(part) else table)[key])
    if len(ids) != count:
        raise WorkbenchError(f"{where}: {len(ids):,} ids for {count:,} rows")
    own = {split: list(table[key][table["split"] == split]) for split in SCORED}
    given, known = set(ids), set(table[key])
    there = [split for split in SCORED if split == needed or given & set(own[split])]
    problems = Problems(where)
    problems.add("ids more than once", (n for n, times in Counter(ids).items() if times > 1))
    problems.add(
        "ids that the corpus does not have", dict.fromkeys(n for n in ids if n not in known)
    )
    for split in there:
        problems.add(
            f"ids of the {split} split that are missing", (n for n in own[split] if n not in given)
        )
    problems.raise_if_any(f"ids are those of the corpus, such as {table[key].iat[0]!r}")
    found = {}
    for split in there:
        place = {name: number for number, name in enumerate(own[split])}
        found[split] = np.array([place.get(name, -1) for name in ids], np.int64)
    return found
