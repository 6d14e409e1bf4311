"""Rank files: what every query reaches, intervals and chance level, too much for a metrics file."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pipeline.evaluation.metrics import METRICS, Measured
from pipeline.evaluation.row import Metric
from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.runtime.files import fingerprint
from pipeline.scores.ranking import DIRECTIONS, Direction
from pipeline.storage.groups import GroupFile, write_groups

if TYPE_CHECKING:  # a table of models needs no torch
    from pipeline.evaluation.folds import Evaluation
    from pipeline.scores.file import SplitScores

QUERIES = ("ids", "groups")  # datasets of a direction that are no criterion
OF_RUN = ("name", "metrics_sha256", "scores_sha256")
REMEDY = "write it again with: dvc repro evaluate"


@dataclass(frozen=True)
class RankRecord:
    """What a rank file says beside the queries' ranks and metrics.

    Attributes:
        protocol: "full", folds such as "1k_x5", or "first_1k".
        intervals: criterion -> figures [low, high], empty when none were drawn.
        confidence: the share they cover.
        chance: figures of a random ranking.
        image_ids: the image queries.
        caption_ids: the caption queries.
        extended: the name of extended positives, and their intervals and chance; empty without.
        made_with: the name that it was written under, and digests of the metrics beside it and of
            the scores, by OF_RUN; empty in files of earlier versions.
        criteria: that have ranks of all queries.
    """

    protocol: str
    intervals: dict[str, Any]
    confidence: float
    chance: dict[str, Any]
    image_ids: list[str]
    caption_ids: list[str]
    extended: dict[str, Any] = field(default_factory=dict)
    made_with: dict[str, str] = field(default_factory=dict)
    criteria: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Queries:
    """The Q queries of one direction, in corpus order.

    Attributes:
        ids: (Q,).
        groups: (Q,), a query and an item belong together when theirs are equal.
        measured: what they reach.
    """

    ids: list[str]
    groups: list[str]
    measured: Measured


@dataclass(frozen=True)
class QueryRanks:
    """What every query of a run reaches under one criterion.

    Attributes:
        protocol: "full", folds such as "1k_x5", or "first_1k".
        i2t: image queries.
        t2i: caption queries.
    """

    protocol: str
    i2t: Queries
    t2i: Queries


def write_ranks(
    path: Path | str,
    split: "SplitScores",
    evaluation: "Evaluation",
    confidence: float,
    made_with: Mapping[str, str] | None = None,
) -> None:
    """Write a rank file: groups i2t and t2i, each with the queries and what they reach.

    Datasets of a direction: `ids` and `groups` of its queries, then by criterion the rank of the
    best true item, such as `naive`, and every metric, such as `naive.mapr`. With extended positives
    also the groups `extended_i2t` and `extended_t2i`, of the queries that these judge.

    Args:
        path: of the file, data/ranks/<model>.h5.
        split: the queries.
        evaluation: what they reach.
        confidence: the share that its intervals cover.
        made_with: values by OF_RUN, by which files of another run are told.
    """
    queries: dict[str, dict[str, Any]] = {
        "i2t": {"ids": split.image_ids, "groups": split.image_groups},
        "t2i": {"ids": split.caption_ids, "groups": split.caption_groups},
    }
    groups: dict[str, dict[str, np.ndarray | Sequence[str]]] = {}
    for way in DIRECTIONS:
        texts = {name: [str(text) for text in own] for name, own in queries[way].items()}
        groups[way] = {**texts, **_numbers(evaluation.measured, way)}
    attributes: dict[str, str | int | float] = {
        "protocol": evaluation.protocol,
        "intervals": json.dumps(evaluation.intervals),
        "confidence": confidence,
        "chance": json.dumps(evaluation.chance),
        **(made_with or {}),
    }
    if (extended := evaluation.extended) is not None:
        for way in DIRECTIONS:
            rows = extended.queries[way]
            texts = {
                name: [str(own[number]) for number in rows] for name, own in queries[way].items()
            }
            groups[f"extended_{way}"] = {**texts, **_numbers(extended.measured, way)}
        attributes["extended"] = json.dumps(
            {
                "positives": extended.positives,
                "intervals": extended.intervals,
                "chance": extended.chance,
            }
        )
    write_groups(path, groups, attributes)


def metrics_digest(content: Mapping[str, Any]) -> str:
    """SHA-256 hex over the content of a metrics file, by which its rank file knows it."""
    return fingerprint(metrics=content)


def _numbers(
    measured: Mapping[str, Mapping[Direction, Measured]], way: Direction
) -> dict[str, np.ndarray]:
    """Datasets of the queries of one direction: by criterion their ranks and every metric."""
    datasets = {}
    for criterion, reached in measured.items():
        datasets[criterion] = reached[way].ranks
        for metric, values in reached[way].values.items():
            datasets[_dataset(criterion, metric)] = values
    return datasets


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
            extended=json.loads(str(values.get("extended", "{}"))),
            made_with={key: str(values[key]) for key in OF_RUN if key in values},
            criteria=_criteria(file),
        )
    except (KeyError, ValueError, RecursionError) as error:
        raise WorkbenchError(f"{path}: not a rank file: attribute {error}", REMEDY) from None


def check_model(path: Path, record: RankRecord) -> None:
    """Raise WorkbenchError for what is known of one model under the name of another.

    Args:
        path: of the rank file.
        record: what is in it.
    """
    told = record.made_with.get("name", path.stem)
    if told != path.stem:
        raise WorkbenchError(
            f"{path}: written as {told!r}, not as {path.stem!r}: of another model", REMEDY
        )


def check_scores(model: str, record: RankRecord, scores: Path) -> None:
    """Raise WorkbenchError for other scores than those that were ranked.

    Args:
        model: its name.
        record: what its rank file holds.
        scores: the score file.
    """
    digest = GroupFile(scores).sha256
    if record.made_with.get("scores_sha256", digest) != digest:
        raise WorkbenchError(
            f"{scores}: not the scores that {model} was evaluated on",
            "write both again with: dvc repro evaluate",
        )


def read_query_ranks(path: Path | str, criterion: str) -> QueryRanks:
    """Read what every query reaches under one criterion.

    Raises WorkbenchError as `read_ranks`, naming the criteria there are when `criterion` is not
    among them, for a metric that is missing, and for ranks and numbers that cannot be.
    """
    protocol, file = read_ranks(path).protocol, GroupFile(path)
    there = _criteria(file)
    if criterion not in there:
        raise WorkbenchError(
            f"{path}: no ranks under criterion {criterion!r}; it has {listing(there) or 'none'}",
            "name it in inference.criteria in params.yaml and run: dvc repro evaluate",
        )
    i2t, t2i = (_read_queries(file, way, criterion) for way in ("i2t", "t2i"))
    _check_ranks(f"{path}: i2t/{criterion}", i2t.measured.ranks, len(t2i.ids))
    _check_ranks(f"{path}: t2i/{criterion}", t2i.measured.ranks, len(i2t.ids))
    return QueryRanks(protocol, i2t, t2i)


def _criteria(file: GroupFile) -> tuple[str, ...]:
    both = (file.names("i2t") & file.names("t2i")) - set(QUERIES)
    return tuple(sorted(name for name in both if "." not in name))


def _read_queries(file: GroupFile, way: str, criterion: str) -> Queries:
    if "groups" not in file.names(way):
        raise WorkbenchError(
            f"{file.path}: without the groups of its queries; an earlier version wrote it", REMEDY
        )
    ids, groups = (file.texts(way, name) for name in QUERIES)
    ranks = file.array(way, criterion)
    if ranks.dtype != np.int64 or not (len(ids),) == (len(groups),) == ranks.shape:
        raise WorkbenchError(
            f"{file.path}: {way} has {len(ids)} ids, {len(groups)} groups and {criterion} of shape "
            f"{ranks.shape} and type {ranks.dtype}; expected one id, group and int64 rank a query"
        )
    values = {
        metric.name: _read_values(file, way, criterion, metric, len(ids)) for metric in METRICS
    }
    return Queries(ids, groups, Measured(ranks, values))


def _read_values(
    file: GroupFile, way: str, criterion: str, metric: Metric, queries: int
) -> np.ndarray:
    name = _dataset(criterion, metric.name)
    if name not in file.names(way):
        raise WorkbenchError(
            f"{file.path}: {way} has no {name}, the {metric.title} of its queries; an earlier "
            "version wrote it",
            REMEDY,
        )
    values = file.array(way, name)
    if values.dtype != np.float64 or values.shape != (queries,):
        raise WorkbenchError(
            f"{file.path}: {way}/{name} of shape {values.shape} and type {values.dtype}; expected "
            f"a float64 for each of {queries} queries"
        )
    metric.check(values, f"{file.path}: {way}/{name}")
    return values


def _dataset(criterion: str, metric: str) -> str:
    return f"{criterion}.{metric}"


def _check_ranks(where: str, ranks: np.ndarray, items: int) -> None:
    if not 1 <= ranks.min() <= ranks.max() <= items:
        raise WorkbenchError(
            f"{where} holds ranks from {ranks.min()} to {ranks.max()}; allowed are 1 to {items}"
        )
