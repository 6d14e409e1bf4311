"""The tables of phrases: which words of which caption stand for which boxes of its image.

A chain is a thing of an image that phrases speak of, of one or several boxes. Evaluation takes the
union of a chain's boxes (Plummer et al. 2015), training every box of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from pipeline.corpus.tables import SPLITS, read_table, write_table
from pipeline.runtime.errors import WorkbenchError, listing

REBUILD = "build it again with: dvc repro prepare_phrases"
SIDES = ("x1", "y1", "x2", "y2")

PHRASES = pa.schema(
    [
        ("phrase_id", pa.string()),
        ("caption_id", pa.string()),
        ("image_id", pa.string()),
        ("split", pa.string()),
        ("words", pa.list_(pa.string())),
        ("chain", pa.string()),
        ("type", pa.string()),
    ]
)
PHRASE_BOXES = pa.schema(
    [
        ("image_id", pa.string()),
        ("chain", pa.string()),
        *((side, pa.float32()) for side in SIDES),
    ]
)


@dataclass(frozen=True)
class PhraseTables:
    phrases: pd.DataFrame  # columns of PHRASES, and the `text` of those read from files
    boxes: pd.DataFrame  # columns of PHRASE_BOXES, pixels

    def __len__(self) -> int:
        return len(self.phrases)

    def write(self, folder: Path) -> None:
        """Write both tables into a folder, phrases.parquet last."""
        write_table(folder / "phrase_boxes.parquet", self.boxes, PHRASE_BOXES)
        write_table(folder / "phrases.parquet", self.phrases, PHRASES)

    def of_split(self, split: str) -> pd.DataFrame:
        """The phrases of a split, numbered from 0; WorkbenchError when there are none."""
        rows = self.phrases[self.phrases["split"] == split].reset_index(drop=True)
        if rows.empty:
            raise WorkbenchError(
                f"split {split!r} has no phrases: they must be trained, validated and tested on",
                "see phrases.source and phrases.splits in params.yaml",
            )
        return rows

    def unions(self, phrases: pd.DataFrame) -> np.ndarray:
        """The union of the boxes of each phrase's chain: (Q, 4) float32 x1, y1, x2, y2."""
        ends = {"x1": "min", "y1": "min", "x2": "max", "y2": "max"}
        whole = self.boxes.groupby(["image_id", "chain"], sort=False).agg(ends)
        keys = pd.MultiIndex.from_frame(phrases[["image_id", "chain"]])
        return whole.reindex(keys)[list(SIDES)].to_numpy(np.float32)


def load_phrases(folder: Path) -> PhraseTables:
    """Read both tables; WorkbenchError when they are damaged or do not belong together."""
    path = folder / "phrases.parquet"
    phrases = read_table(path, PHRASES)
    boxes = read_table(folder / "phrase_boxes.parquet", PHRASE_BOXES)
    check(str(path), phrases, boxes)
    phrases["text"] = [" ".join(words) for words in phrases["words"]]
    return PhraseTables(phrases, boxes)


def check(place: str, phrases: pd.DataFrame, boxes: pd.DataFrame) -> None:
    """Refuse tables that no phrase can be localised with."""
    ids, splits = phrases["phrase_id"], phrases["split"]
    corners = boxes[list(SIDES)].to_numpy(np.float64).reshape(-1, 4)
    empty = ~((corners[:, :2] < corners[:, 2:]).all(1) & np.isfinite(corners).all(1))
    known = set(zip(boxes["image_id"], boxes["chain"], strict=True))
    owners = zip(phrases["image_id"], phrases["chain"], strict=True)
    problems = {
        "phrases more than once": ids[ids.duplicated()],
        "phrases without words": ids[[len(words) == 0 for words in phrases["words"]]],
        "phrases of other splits": ids[~splits.isin(SPLITS)],
        "phrases of chains without a box": ids[[owner not in known for owner in owners]],
        "boxes without area, of images": boxes["image_id"][empty],
    }
    lines = [f"{kind}: {listing(names, 5)}" for kind, names in problems.items() if len(names)]
    if lines:
        raise WorkbenchError(f"{place}: " + "; ".join(lines), REBUILD)


@dataclass(frozen=True)
class DistinctRegions:
    """The N different boxes of phrases, each of them once however many chains have it."""

    ids: list[str]  # `image_id#number`
    image_ids: list[str]
    boxes: np.ndarray  # (N, 4) float32 x1, y1, x2, y2 in pixels
    of_chain: Mapping[Any, list[int]]  # (image_id, chain) to the rows of its boxes


def distinct_regions(boxes: pd.DataFrame, images: list[str]) -> DistinctRegions:
    """The regions of some images, image after image in the order of the table of boxes."""
    own = boxes[boxes["image_id"].isin(images)]
    own = own.iloc[
        np.argsort(pd.Index(images).get_indexer(pd.Index(own["image_id"])), kind="stable")
    ]
    rows = own.groupby(["image_id", *SIDES], sort=False).ngroup()
    first = own[~rows.duplicated()]
    names = first["image_id"].tolist()
    numbers = first.groupby("image_id").cumcount()
    return DistinctRegions(
        [f"{name}#{number}" for name, number in zip(names, numbers, strict=True)],
        names,
        first[list(SIDES)].to_numpy(np.float32),
        rows.groupby([own["image_id"], own["chain"]], sort=False).agg(list).to_dict(),
    )
