"""Tables of text that know when they were cut short or changed: a digest in their last line."""

import hashlib
from collections.abc import Sequence

SEAL = "sha256"


def sealed(rows: Sequence[Sequence[str]]) -> str:
    """Tab-separated lines, the first the header, with a last column `sha256`. The column is
    empty but in the last line, which has the digest of all other columns."""
    lines = ["\t".join(row) for row in rows]
    ends = [SEAL, *[""] * (len(lines) - 2), _digest(lines)][: len(lines)]
    return "".join(f"{line}\t{end}\n" for line, end in zip(lines, ends, strict=True))


def is_broken(text: str) -> bool:
    """Whether a table with such a column is not whole; a table without one is not judged."""
    lines = [line.rpartition("\t") for line in text.removesuffix("\n").split("\n")]
    if SEAL not in "".join(lines[0]):
        return False
    if lines[0][2] != SEAL:  # its line end is another sign
        return True
    ends = [end for _, _, end in lines[1:]]
    return ends != [*[""] * (len(ends) - 1), _digest([line for line, _, _ in lines])]


def _digest(lines: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
