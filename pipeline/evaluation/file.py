"""Rank files: the rank of every query, intervals and chance level, too much for a metrics file."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.storage.groups import GroupFile, write_groups

if TYPE_CHECKING:  # a table of models needs no torch
    from pipeline.evaluation.folds import Evaluation
    from pipeline.scores.file import SplitScores


QUERIES = ("ids", "groups")  # datasets of a direction that are no criterion


@dataclass(frozen=True)
class RankRecord:
    """What a rank file says beside the ranks.

    intervals: criterion -> figures [low, high], empty when none were drawn; confidence: the share
    they cover; chance: figures of a random ranking; image_ids and caption_ids: the queries.
    """

    protocol: str
    intervals: dict[str, Any]
    confidence: float
    chance: dict[str, Any]
    image_ids: list[str]
    caption_ids: list[str]


@dataclass(frozen=True, eq=False)
class Queries:
    """The Q queries of one direction, in corpus order.

    ids: (Q,); groups: (Q,), a query and an item belong together when theirs are equal; ranks: (Q,)
    int64, 1-based rank of the best-ranked true item.
    """

    ids: list[str]
    groups: list[str]
    ranks: np.ndarray


@dataclass(frozen=True)
class QueryRanks:
    """The rank of every query of a run under one criterion: image queries and caption queries."""

    protocol: str
    i2t: Queries
    t2i: Queries


def write_ranks(
    path: Path | str, split: "SplitScores", evaluation: "Evaluation", confidence: float
) -> None:
    """Write data/ranks/<model>.h5: groups i2t and t2i, each with the queries and their ranks.

    Datasets of a direction: `ids` and `groups` of its queries, and their ranks by criterion.
    """
    image_groups = [str(group) for group in split.image_groups]
    caption_groups = [str(group) for group in split.caption_groups]
    write_groups(
        path,
        {
            "i2t": {"ids": list(split.image_ids), "groups": image_groups}
            | {name: ranks.i2t for name, ranks in evaluation.ranks.items()},
            "t2i": {"ids": list(split.caption_ids), "groups": caption_groups}
            | {name: ranks.t2i for name, ranks in evaluation.ranks.items()},
        },
        {
            "protocol": evaluation.protocol,
            "intervals": json.dumps(evaluation.intervals),
            "confidence": confidence,
            "chance": json.dumps(evaluation.chance),
        },
    )


def read_ranks(path: Path | str) -> RankRecord:
    """Read what `write_ranks` wrote, ranks apart; WorkbenchError when it is anything else."""
    file = GroupFile(path)
    try:
        values = file.attributes
        return RankRecord(
            protocol=str(values["protocol"]),
            intervals=json.loads(str(values["intervals"])),
            confidence=float(values["confidence"]),
            chance=json.loads(str(values["chance"])),
            image_ids=file.texts("i2t", "ids"),
            caption_ids=file.texts("t2i", "ids"),
        )
    except (KeyError, ValueError, RecursionError) as error:
        raise WorkbenchError(
            f"{path}: not a rank file: attribute {error}", "write it with: dvc repro evaluate"
        ) from None


def read_query_ranks(path: Path | str, criterion: str) -> QueryRanks:
    """Read the ranks of every query under one criterion.

    Raises WorkbenchError as `read_ranks`, naming the criteria there are when `criterion` is not
    among them, and for ranks that cannot be.
    """
    protocol, file = read_ranks(path).protocol, GroupFile(path)
    there = sorted((file.names("i2t") & file.names("t2i")) - set(QUERIES))
    if criterion not in there:
        raise WorkbenchError(
            f"{path}: no ranks under criterion {criterion!r}; it has {listing(there) or 'none'}",
            "set inference.criterion in params.yaml and run: dvc repro evaluate",
        )
    i2t, t2i = (_read_queries(file, way, criterion) for way in ("i2t", "t2i"))
    _check_ranks(f"{path}: i2t/{criterion}", i2t.ranks, len(t2i.ids))
    _check_ranks(f"{path}: t2i/{criterion}", t2i.ranks, len(i2t.ids))
    return QueryRanks(protocol, i2t, t2i)


def _read_queries(file: GroupFile, way: str, criterion: str) -> Queries:
    if "groups" not in file.names(way):
        raise WorkbenchError(
            f"{file.path}: without the groups of its queries; an earlier version wrote it",
            "write it again with: dvc repro evaluate",
        )
    ids, groups = (file.texts(way, name) for name in QUERIES)
    ranks = file.array(way, criterion)
    if ranks.dtype != np.int64 or not (len(ids),) == (len(groups),) == ranks.shape:
        raise WorkbenchError(
            f"{file.path}: {way} has {len(ids)} ids, {len(groups)} groups and {criterion} of shape "
            f"{ranks.shape} and type {ranks.dtype}; expected one id, group and int64 rank a query"
        )
    return Queries(ids, groups, ranks)


def _check_ranks(where: str, ranks: np.ndarray, items: int) -> None:
    if not 1 <= ranks.min() <= ranks.max() <= items:
        raise WorkbenchError(
            f"{where} holds ranks from {ranks.min()} to {ranks.max()}; allowed are 1 to {items}"
        )
