"""Rank files: what every query reaches, intervals, chance level, and what pages show."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pipeline.evaluation.columns import rows_in
from pipeline.evaluation.figures import Measured, metrics_digest
from pipeline.evaluation.findings import SOURCE, Findings, groups_of
from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.scores.ranking import DIRECTIONS, Direction
from pipeline.storage.groups import GroupFile, write_groups

if TYPE_CHECKING:  # a table of models needs no torch
    from pipeline.evaluation.folds import Evaluation
    from pipeline.scores.file import SplitScores

VERSION = 2  # 1 had no findings
REMEDY = "write it again with: dvc repro evaluate"


@dataclass(frozen=True)
class RankRecord:
    """What a rank file says beside the queries' ranks and metrics."""

    protocol: str  # "full", folds such as "1k_x5", or "first_1k"
    intervals: dict[str, Any]  # criterion -> figures [low, high], empty when none were drawn
    confidence: float
    chance: dict[str, Any]  # figures of a random ranking
    image_ids: list[str]  # (N,) the image queries
    caption_ids: list[str]  # (M,) the caption queries
    # (N,), an image and a caption belong together when their groups are equal
    image_groups: list[str]
    caption_groups: list[str]
    # the name of extended positives, and their intervals and chance; empty without
    extended: dict[str, Any]
    name: str
    metrics_sha256: str  # of the metrics written with it; empty in files of earlier versions


@dataclass(frozen=True, eq=False)
class Queries:
    """The queries of one direction in corpus order, and what they reach."""

    ids: list[str]  # (Q,)
    groups: list[str]  # (Q,)
    measured: Measured


@dataclass(frozen=True)
class QueryRanks:
    """What every image query (i2t) and caption query (t2i) of a run reaches under one criterion."""

    protocol: str
    i2t: Queries
    t2i: Queries


def write_ranks(
    path: Path,
    split: "SplitScores",
    evaluation: "Evaluation",
    confidence: float,
    metrics: Mapping[str, Any] | None = None,
    findings: Findings | None = None,
) -> None:
    """Write a rank file: of both directions `ids` and `groups`, and by criterion the rank of the
    best true item, such as `naive`, and every metric, such as `naive.mapr`; the same of the queries
    that extended positives judge; findings. metrics: content of the metrics file."""
    queries = {
        "i2t": {"ids": list(split.image_ids), "groups": list(split.image_groups)},
        "t2i": {"ids": list(split.caption_ids), "groups": list(split.caption_groups)},
    }
    groups = {} if findings is None else dict(groups_of(findings))
    for way in DIRECTIONS:
        groups[way] = {**queries[way], **_numbers(evaluation.measured, way)}
    attributes: dict[str, str | int | float] = {
        "version": VERSION,
        "protocol": evaluation.protocol,
        "intervals": json.dumps(evaluation.intervals),
        "confidence": confidence,
        "chance": json.dumps(evaluation.chance),
        "name": path.stem,
        "metrics_sha256": metrics_digest(metrics or evaluation.summary()),
    }
    if (extended := evaluation.extended) is not None:
        for way in DIRECTIONS:
            rows = extended.queries[way]
            texts = {name: [column[row] for row in rows] for name, column in queries[way].items()}
            groups[f"extended_{way}"] = {**texts, **_numbers(extended.measured, way)}
        said = {name: getattr(extended, name) for name in ("positives", "intervals", "chance")}
        attributes["extended"] = json.dumps(said)
    if findings is not None:
        attributes[SOURCE] = json.dumps(dict(findings.source))
    write_groups(path, groups, attributes)


def _numbers(
    measured: Mapping[str, Mapping[Direction, Measured]], way: Direction
) -> dict[str, np.ndarray]:
    datasets = {}
    for criterion, reached in measured.items():
        datasets[criterion] = reached[way].ranks
        for metric, values in reached[way].values.items():
            datasets[f"{criterion}.{metric}"] = values
    return datasets


def read_ranks(path: Path) -> RankRecord:
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
            image_groups=file.texts("i2t", "groups"),
            caption_groups=file.texts("t2i", "groups"),
            extended=json.loads(str(values.get("extended", "{}"))),
            name=str(values.get("name", path.stem)),
            metrics_sha256=str(values.get("metrics_sha256", "")),
        )
    except (KeyError, ValueError, RecursionError) as error:
        raise WorkbenchError(f"{path}: not a rank file: attribute {error}", REMEDY) from None


def check_model(path: Path, record: RankRecord) -> None:
    """Raise WorkbenchError for a rank file of one model under the name of another."""
    if record.name != path.stem:
        raise WorkbenchError(
            f"{path}: written as {record.name!r}, not as {path.stem!r}: of another model", REMEDY
        )


def check_metrics(path: Path, content: Any, partner: Path, digest: object) -> None:
    """Raise WorkbenchError unless `digest`, from the partner, is that of the metrics file."""
    if digest != metrics_digest(content):
        raise WorkbenchError(
            f"{path}: was not written with {partner}, or was changed since",
            "bring both to the same state with: dvc checkout, or dvc repro",
        )


def read_query_ranks(path: Path, criterion: str) -> QueryRanks:
    """Read what every query reaches under one criterion; WorkbenchError when it is not there."""
    record, file = read_ranks(path), GroupFile(path)
    criteria = sorted(n for n in file.names("i2t") if n not in ("ids", "groups") and "." not in n)
    if criterion not in criteria:
        raise WorkbenchError(
            f"{path}: no ranks under criterion {criterion!r}; it has {listing(criteria) or 'none'}",
            "name it in inference.criteria in params.yaml and run: dvc repro evaluate",
        )
    return QueryRanks(
        record.protocol,
        Queries(record.image_ids, record.image_groups, _measured(file, "i2t", criterion)),
        Queries(record.caption_ids, record.caption_groups, _measured(file, "t2i", criterion)),
    )


def _measured(file: GroupFile, way: Direction, criterion: str) -> Measured:
    rows = rows_in(name.removeprefix(f"{criterion}.") for name in file.names(way))
    values = {metric.name: file.array(way, f"{criterion}.{metric.name}") for metric in rows}
    return Measured(file.array(way, criterion), values)
