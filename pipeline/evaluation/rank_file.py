"""Rank files: what every query reaches, intervals, chance level, and what pages show.

Whoever reads or shows figures of all metrics finds the metrics here, as constants.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.evaluation.figures import (
    Column,
    Measured,
    columns_of,
    extended_rows,
    metrics_digest,
    plain_rows,
)
from pipeline.evaluation.findings import Findings, Separation, TopResults
from pipeline.evaluation.metrics import Metric
from pipeline.evaluation.protocol import Evaluation
from pipeline.evaluation.score_file import SplitScores
from pipeline.evaluation.truth import DIRECTIONS, Direction
from pipeline.features.groups import GroupFile, write_groups
from pipeline.runtime.errors import WorkbenchError, listing

METRICS = plain_rows()
EXTENDED = extended_rows()
COLUMNS = columns_of(METRICS)
RECALL_NAME = re.compile("r[1-9][0-9]{0,8}")
VERSION = 2  # 1 had no findings
HITS = ("queries", "ranks", "items", "scores", "failed")  # fields of TopResults
SOURCE = "scores"  # the attribute with what the score file says of itself
EVALUATE_AGAIN = "write it again with: dvc repro evaluate"


def headings() -> list[str]:
    """Titles of the columns, the direction in the first of each alone."""
    first = METRICS[0].name
    return [column.label if first in column.keys else column.title for column in COLUMNS]


def rows_in(names: Iterable[str]) -> tuple[Metric, ...]:
    """The plain rows where figures or numbers have these names, r50 among them, say."""
    return plain_rows(int(name[1:]) for name in names if RECALL_NAME.fullmatch(name))


def columns_in(summary: Mapping[str, Any]) -> tuple[Column, ...]:
    """The figures of a summary, as plain metrics have them."""
    return columns_of(rows_in(summary["i2t"]))


@dataclass(frozen=True)
class RankRecord:
    """What a rank file says beside the queries' ranks and metrics.

    Attributes:
        protocol: "full", folds such as "1k_x5", or "first_1k".
        intervals: criterion -> figures [low, high], empty when none were drawn.
        confidence: share of the bootstrap draws inside an interval.
        chance: figures of a random ranking.
        image_ids: (N,) the image queries.
        caption_ids: (M,) the caption queries.
        image_groups: (N,), an image and a caption belong together when their groups are equal.
        caption_groups: (M,).
        extended: the name of extended positives, and their intervals and chance; empty without.
        name: of the model.
        metrics_sha256: of the metrics written with it; empty in files of earlier versions.
    """

    protocol: str
    intervals: dict[str, Any]
    confidence: float
    chance: dict[str, Any]
    image_ids: list[str]
    caption_ids: list[str]
    image_groups: list[str]
    caption_groups: list[str]
    extended: dict[str, Any]
    name: str
    metrics_sha256: str


@dataclass(frozen=True, eq=False)
class Queries:
    """The queries of one direction in corpus order, and what they reach.

    Attributes:
        ids: (Q,).
        groups: (Q,).
        measured: ranks and metrics of the Q queries.
    """

    ids: list[str]
    groups: list[str]
    measured: Measured


@dataclass(frozen=True)
class QueryRanks:
    """What every image query (i2t) and caption query (t2i) of a run reaches under one criterion."""

    protocol: str
    i2t: Queries
    t2i: Queries


def write_ranks(
    path: Path,
    split: SplitScores,
    evaluation: Evaluation,
    confidence: float,
    metrics: Mapping[str, Any] | None = None,
    findings: Findings | None = None,
) -> None:
    """Write a rank file.

    It has of both directions `ids` and `groups`, and by criterion the rank of the best true item,
    such as `naive`, and every metric, such as `naive.mapr`; the same of the queries that extended
    positives judge; findings.

    Args:
        path: of the file; its stem is the model's name.
        split: what was evaluated.
        evaluation: of the split.
        confidence: share of the bootstrap draws inside an interval.
        metrics: content of the metrics file, None for the summary of the evaluation.
        findings: None for a file that pages cannot show.
    """
    queries = {
        "i2t": {"ids": list(split.image_ids), "groups": list(split.image_groups)},
        "t2i": {"ids": list(split.caption_ids), "groups": list(split.caption_groups)},
    }
    groups: dict[str, Mapping[str, np.ndarray | list[str]]] = {}
    if findings is not None:
        groups.update(_groups_of(findings))
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
    extended = evaluation.extended
    if extended is not None:
        for way in DIRECTIONS:
            rows = extended.queries[way]
            texts = {name: [column[row] for row in rows] for name, column in queries[way].items()}
            groups[f"extended_{way}"] = {**texts, **_numbers(extended.measured, way)}
        about = {name: getattr(extended, name) for name in ("positives", "intervals", "chance")}
        attributes["extended"] = json.dumps(about)
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


def _groups_of(findings: Findings) -> Iterator[tuple[str, Mapping[str, np.ndarray]]]:
    """The groups and datasets that a rank file has of them: separation, hubs_i2t, hits_i2t, ..."""
    separation = findings.separation
    if separation is not None:
        span = np.array([separation.low, separation.high])
        yield "separation", {"span": span, "true": separation.true, "others": separation.others}
    for way in DIRECTIONS:
        yield f"hubs_{way}", {name: counts[way] for name, counts in findings.hubs.items()}
        hits = findings.hits[way]
        yield f"hits_{way}", {name: np.atleast_1d(getattr(hits, name)) for name in HITS}


def read_findings(path: Path) -> Findings:
    """What a rank file has of the scores; WorkbenchError when an earlier version wrote it."""
    file = GroupFile(path)
    if "hubs_i2t" not in file.layouts:
        raise WorkbenchError(
            f"{path}: without hubs, separation and best hits: an earlier version wrote it",
            EVALUATE_AGAIN,
        )
    separation = None
    if "separation" in file.layouts:
        low, high = file.array("separation", "span").tolist()
        separation = Separation(
            low, high, file.array("separation", "true"), file.array("separation", "others")
        )
    hits = {}
    for way in DIRECTIONS:
        queries, ranks, items, scores, failed = (file.array(f"hits_{way}", name) for name in HITS)
        hits[way] = TopResults(queries, ranks, items, scores, failed=int(failed[0]))
    return Findings(
        hubs={
            criterion: {way: file.array(f"hubs_{way}", criterion) for way in DIRECTIONS}
            for criterion in sorted(file.names("hubs_i2t"))
        },
        separation=separation,
        hits=hits,
        source=json.loads(str(file.attributes[SOURCE])),
    )


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
        message = f"{path}: not a rank file: attribute {error}"
        raise WorkbenchError(message, EVALUATE_AGAIN) from None


def check_model(path: Path, record: RankRecord) -> None:
    """Refuse a rank file of one model under the name of another.

    Args:
        path: of the rank file.
        record: what it says.

    Raises:
        WorkbenchError: another name than the file's.
    """
    if record.name != path.stem:
        raise WorkbenchError(
            f"{path}: written as {record.name!r}, not as {path.stem!r}: of another model",
            EVALUATE_AGAIN,
        )


def check_metrics(path: Path, content: Any, partner: Path, digest: object) -> None:
    """Refuse a metrics file that was not written with the file beside it.

    Args:
        path: of the metrics file.
        content: of the metrics file.
        partner: path of the other file, such as a rank file.
        digest: of metrics, from the partner.

    Raises:
        WorkbenchError: another digest than that of the content.
    """
    if digest != metrics_digest(content):
        raise WorkbenchError(
            f"{path}: was not written with {partner}, or was changed since",
            "bring both to the same state with: dvc checkout, or dvc repro",
        )


def read_query_ranks(path: Path, criterion: str) -> QueryRanks:
    """Read what every query reaches under one criterion.

    Args:
        path: of a rank file.
        criterion: such as "naive".

    Returns:
        Both directions.

    Raises:
        WorkbenchError: no rank file, or none with this criterion.
    """
    record = read_ranks(path)
    file = GroupFile(path)
    criteria = sorted(
        name for name in file.names("i2t") if name not in ("ids", "groups") and "." not in name
    )
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
