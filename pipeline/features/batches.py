"""Which rows of a feature file are computed together, and what their bytes depend on.

Float sums may differ in the last bits between batches of different sizes, so a row's bytes are
settled by its input, the settings and its batch. A file that is made anew has batches with fixed
boundaries (`whole_batches` of feature_file.py). Where most rows are known, those that are missing
are brought together in batches of the same sizes (`packed_batches`).
"""

import hashlib
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from pipeline.features.feature_file import Rows


@dataclass(frozen=True)
class RowInputs:
    """What the bytes of each row of a feature file depend on, beside settings and machine.

    Attributes:
        keys: N texts, equal where rows have equal bytes: the input, and what of the batch matters.
        companies: of each row, what it is computed with: rows of equal companies share a batch.
        sizes: by company, the rows of a batch. What computes a batch pads one that is shorter, or
            there are always rows enough: the company has a whole number of batches.
        is_moved: whether rows may change their places and neighbours; else a company is one batch
            and all of it is part of the keys.
    """

    keys: Sequence[str]
    companies: Sequence[Hashable]
    sizes: dict[Hashable, int]
    is_moved: bool = True


def alone(digests: Sequence[str], size: int) -> RowInputs:
    """Rows that depend on their own input, in batches that are always computed as whole ones.

    Args:
        digests: of the input of each of N rows.
        size: rows of a batch.

    Returns:
        The inputs, all of one company.
    """
    return grouped(digests, [""] * len(digests), {"": size})


def grouped(
    digests: Sequence[str], companies: Sequence[Hashable], sizes: dict[Hashable, int]
) -> RowInputs:
    """Rows that depend on their own input and on the number of rows that share their batch.

    Args:
        digests: of the input of each of N rows.
        companies: of each row: those of equal companies may share a batch.
        sizes: by company, the rows of a batch.

    Returns:
        The inputs.
    """
    pairs = zip(digests, companies, strict=True)
    keys = [f"{digest} in {sizes[company]}" for digest, company in pairs]
    return RowInputs(keys, companies, sizes)


def in_blocks(digests: Sequence[str], size: int) -> RowInputs:
    """Rows that depend on all inputs of their block and on their place there.

    Args:
        digests: of the input of each of N rows.
        size: rows of a block; the last has what is left.

    Returns:
        The inputs, a company for each block.
    """
    keys: list[str] = []
    sizes: dict[Hashable, int] = {}
    for start in range(0, len(digests), size):
        block = digests[start : start + size]
        name = hashlib.sha256("\n".join(block).encode()).hexdigest()
        keys += [f"{place} of {name}" for place in range(len(block))]
        sizes[start // size] = len(block)
    companies = [row // size for row in range(len(digests))]
    return RowInputs(keys, companies, sizes, is_moved=False)


def packed_batches(missing: Rows, inputs: RowInputs) -> list[Rows]:
    """Missing rows brought together, and known rows in the places that are left: computed once
    more, these show whether a row's bytes depend on its place and on its neighbours.

    Args:
        missing: row numbers, int64, ascending; all others are known.
        inputs: of all rows.

    Returns:
        The row numbers of each batch, ascending, batches with known rows first. Where rows are
        moved at least one batch has some, unless none is known.
    """
    is_known = np.ones(len(inputs.keys), bool)
    is_known[missing] = False
    known_of = _by_company(np.flatnonzero(is_known), inputs)
    batches = []
    for company, rows in _by_company(missing, inputs).items():
        size = inputs.sizes[company]
        spare = known_of.get(company, [])[: -len(rows) % size]
        filled = np.array(rows + spare, np.int64)
        batches += [np.sort(filled[start : start + size]) for start in range(0, len(filled), size)]
    if inputs.is_moved and known_of and not any(is_known[rows].any() for rows in batches):
        company, rows = next(iter(known_of.items()))
        size = inputs.sizes[company]
        # from all over the file: rows that were no neighbours
        batches.append(np.array(rows[:: max(1, len(rows) // size)][:size], np.int64))
    return sorted(batches, key=lambda rows: not is_known[rows].any())


def _by_company(rows: Rows, inputs: RowInputs) -> dict[Hashable, list[int]]:
    groups: dict[Hashable, list[int]] = {}
    for row in rows.tolist():
        groups.setdefault(inputs.companies[row], []).append(row)
    return groups
