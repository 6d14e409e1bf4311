"""Rank files: the rank of every query, intervals and chance level, too much for a metrics file."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.errors import WorkbenchError
from pipeline.group_file import GroupFile, write_groups

if TYPE_CHECKING:  # a table of models needs no torch
    from pipeline.evaluation import Evaluation
    from pipeline.score_file import SplitScores


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


def write_ranks(
    path: Path | str, split: "SplitScores", evaluation: "Evaluation", confidence: float
) -> None:
    """Write data/ranks/<model>.h5: groups i2t and t2i, each with `ids` and ranks by criterion."""
    write_groups(
        path,
        {
            "i2t": {"ids": list(split.image_ids)}
            | {name: ranks.i2t for name, ranks in evaluation.ranks.items()},
            "t2i": {"ids": list(split.caption_ids)}
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
    except (KeyError, ValueError) as error:
        raise WorkbenchError(
            f"{path}: not a rank file: attribute {error}", "write it with: dvc repro evaluate"
        ) from None
