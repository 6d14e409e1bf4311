"""Runs and qrels of any program, read line by line: they come from outside."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.text import printable
from vse_workbench.trec.ids import unescaped

V = TypeVar("V")
Run = dict[str, dict[str, float]]
Qrels = dict[str, dict[str, int]]

MAX_BYTES = 1 << 33  # a run of MS-COCO's 25,000 captions over 5,000 images, all of them, has 6 GB
MAX_LINE = 10_000
LARGEST_LEVEL = 10**9
HINT = "a run has lines `query Q0 item rank score tag`, qrels lines `query 0 item level`"


def read_run(path: Path) -> Run:
    """By query its items and their scores; ranks and tags are not looked at, as trec_eval.

    Raises:
        WorkbenchError: naming the line that has other columns, an item again, or no finite score.
    """
    run: Run = {}
    for number, (query, _, item, _, score, _) in _rows(path, 6):
        value = _number(path, number, score)
        _put(run.setdefault(query, {}), item, value, path, number)
    return run


def read_qrels(path: Path) -> Qrels:
    """By query its judged items and their levels, 0 and below for those that are not true.

    Raises:
        WorkbenchError: naming the line that has other columns, an item again, or no whole level.
    """
    qrels: Qrels = {}
    for number, (query, _, item, level) in _rows(path, 4):
        value = _number(path, number, level)
        if value != int(value) or abs(value) > LARGEST_LEVEL:
            raise WorkbenchError(f"{path}, line {number}: level {printable(level)}: not whole")
        _put(qrels.setdefault(query, {}), item, int(value), path, number)
    return qrels


def _rows(path: Path, columns: int) -> Iterator[tuple[int, list[str]]]:
    if path.stat().st_size > MAX_BYTES:
        raise WorkbenchError(f"{path}: more than {MAX_BYTES >> 30} GB", "cut the run at a depth")
    empty = True
    with open(path, "rb") as file:
        for number, line in enumerate(iter(lambda: file.readline(MAX_LINE), b""), start=1):
            try:
                words = line.decode("utf-8").split()
            except UnicodeDecodeError:
                raise WorkbenchError(f"{path}, line {number}: not UTF-8 text", HINT) from None
            if len(words) != columns or (not line.endswith(b"\n") and len(line) == MAX_LINE):
                raise WorkbenchError(
                    f"{path}, line {number}: {len(words)} columns; expected {columns}", HINT
                )
            empty = False
            words[0], words[2] = unescaped(words[0]), unescaped(words[2])
            yield number, words
    if empty:
        raise WorkbenchError(f"{path}: no line in it", HINT)


def _number(path: Path, line: int, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise WorkbenchError(f"{path}, line {line}: {printable(text)!r} is no finite number", HINT)
    return value


def _put(items: dict[str, V], item: str, value: V, path: Path, line: int) -> None:
    if item in items:
        raise WorkbenchError(f"{path}, line {line}: item {printable(item)} for the second time")
    items[item] = value
