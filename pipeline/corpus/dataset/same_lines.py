"""Files that hold what others hold: a table of all splits beside one for each, or a copy."""

from collections.abc import Sequence

from pipeline.corpus.dataset.folder import Folder
from pipeline.corpus.dataset.splits import split_in_path

MOST_BYTES = 1 << 30  # of all files that are compared


def with_the_same_lines(
    folder: Folder, groups: Sequence[tuple[str, ...]]
) -> tuple[tuple[str, ...], ...]:
    """Of groups of files all but the first, where the lines of each are those of the first.

    Args:
        folder: the files of the user's folder.
        groups: files that are read together, the group that is read first.

    Returns:
        The other groups; empty where one of them has other lines, or says splits: folds divide the
        same lines in different ways.
    """
    if any(len(files) > 1 or split_in_path(files[0]) for files in groups[1:]):
        return ()
    paths = [folder.root / file for files in groups for file in files]
    if not all(path.is_file() for path in paths):
        return ()
    if sum(path.stat().st_size for path in paths) > MOST_BYTES:
        return ()
    first = _lines(folder, groups[0])
    if all(_lines(folder, files) == first for files in groups[1:]):
        return tuple(groups[1:])
    return ()


def _lines(folder: Folder, files: Sequence[str]) -> set[bytes]:
    """The different lines of files, without blanks around them and commas behind them."""
    lines: set[bytes] = set()
    for file in files:
        text = (folder.root / file).read_bytes().removeprefix(b"\xef\xbb\xbf")
        lines |= {line.strip().rstrip(b",") for line in text.splitlines()}
    return lines - {b""}
