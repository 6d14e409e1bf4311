"""Hubs, separation and best hits, which rank files keep for pages; read without torch."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pipeline.runtime.errors import WorkbenchError
from pipeline.scores.ranking import DIRECTIONS, Direction
from pipeline.storage.groups import GroupFile, Groups

HITS = ("queries", "ranks", "items", "scores", "failed")
SOURCE = "scores"  # the attribute with what the score file says of itself


@dataclass(frozen=True)
class Separation:
    """Histograms of scores over equal bins."""

    low: float  # end of the range, -1 for cosines, else the smallest score
    high: float  # the other end, 1 for cosines, else the largest score
    true: np.ndarray  # (bins,) int64 numbers of true pairs
    others: np.ndarray  # (bins,) int64 numbers of other pairs

    @property
    def densities(self) -> tuple[np.ndarray, np.ndarray]:
        """P and Q, (bins,) each, with area 1."""
        width = (self.high - self.low) / len(self.true)
        return self.true / self.true.sum() / width, self.others / self.others.sum() / width

    @property
    def overlap(self) -> float:
        """S, the integral of min(P, Q), 0 to 1; eq. 10 over the bins."""
        width = (self.high - self.low) / len(self.true)
        return float(np.minimum(*self.densities).sum() * width)


@dataclass(frozen=True, eq=False)
class BestHits:
    """The Q queries of one direction that galleries show, and what each found."""

    # (Q,) int64 numbers in corpus order: the hardest failures, then some successes
    queries: np.ndarray
    ranks: np.ndarray  # (Q,) int64, of the best true item, 1 is first
    items: np.ndarray  # (Q, K + 1) int64 numbers of the first K items, then of the best true one
    scores: np.ndarray  # (Q, K + 1) float32 scores of these
    failed: int  # how many of all queries of the direction do not find a true item first


@dataclass(frozen=True, eq=False)
class Findings:
    """What pages show of the scores of N images and M captions."""

    # criterion -> by direction, of how many queries each item is the nearest: (M,) int64 for i2t,
    # (N,) for t2i
    hubs: Mapping[str, Mapping[Direction, np.ndarray]]
    separation: Separation | None  # None of reranked scores, which are of two models
    hits: Mapping[Direction, BestHits]  # queries by direction
    source: Mapping[str, str]  # what the score file says it was made from, by name


def groups_of(findings: Findings) -> Groups:
    """The groups and datasets that a rank file has of them: separation, hubs_i2t, hits_i2t, ..."""
    groups: dict[str, dict[str, np.ndarray]] = {}
    if (separation := findings.separation) is not None:
        span = np.array([separation.low, separation.high])
        groups["separation"] = {"span": span, "true": separation.true, "others": separation.others}
    for way in DIRECTIONS:
        groups[f"hubs_{way}"] = {name: counts[way] for name, counts in findings.hubs.items()}
        hits = findings.hits[way]
        groups[f"hits_{way}"] = {name: np.atleast_1d(getattr(hits, name)) for name in HITS}
    return groups


def read_findings(path: Path) -> Findings:
    """What a rank file has of the scores; WorkbenchError when an earlier version wrote it."""
    file = GroupFile(path)
    if "hubs_i2t" not in file.layouts:
        raise WorkbenchError(
            f"{path}: without hubs, separation and best hits: an earlier version wrote it",
            "write it again with: dvc repro evaluate",
        )
    separation = None
    if "separation" in file.layouts:
        low, high = file.array("separation", "span").tolist()
        histograms = (file.array("separation", name) for name in ("true", "others"))
        separation = Separation(low, high, *histograms)
    criteria = sorted(file.names("hubs_i2t"))
    hits = {}
    for way in DIRECTIONS:
        queries, ranks, items, scores, failed = (file.array(f"hits_{way}", name) for name in HITS)
        hits[way] = BestHits(queries, ranks, items, scores, int(failed[0]))
    return Findings(
        {name: {way: file.array(f"hubs_{way}", name) for way in DIRECTIONS} for name in criteria},
        separation,
        hits,
        json.loads(str(file.attributes[SOURCE])),
    )
