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

from pipeline.corpus.tables import read_table, write_table
from pipeline.runtime.errors import WorkbenchError

SIDES = ("x1", "y1", "x2", "y2")

_TEXT = pa.string()
PHRASES = pa.schema(
    dict.fromkeys(("phrase_id", "caption_id", "image_id", "split"), _TEXT)
    | {"words": pa.list_(_TEXT), "chain": _TEXT, "type": _TEXT}
)
PHRASE_BOXES = pa.schema({"image_id": _TEXT, "chain": _TEXT} | dict.fromkeys(SIDES, pa.float32()))


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
    """Read both tables; WorkbenchError when one is missing or damaged."""
    phrases = read_table(folder / "phrases.parquet", PHRASES)
    boxes = read_table(folder / "phrase_boxes.parquet", PHRASE_BOXES)
    phrases["text"] = [" ".join(words) for words in phrases["words"]]
    return PhraseTables(phrases, boxes)


@dataclass(frozen=True)
class DistinctRegions:
    """The N different boxes of phrases, each of them once however many chains have it."""

    ids: list[str]  # `image_id#number`
    image_ids: list[str]
    boxes: np.ndarray  # (N, 4) float32 x1, y1, x2, y2 in pixels
    of_chain: Mapping[Any, list[int]]  # (image_id, chain) to the rows of its boxes

    def owners(self, images: list[str]) -> np.ndarray:
        """(N,) which of some images, given by their ids, each box is of."""
        return pd.Index(images).get_indexer(pd.Index(self.image_ids))


def distinct_regions(boxes: pd.DataFrame, images: list[str]) -> DistinctRegions:
    """The regions of some images, image after image in the order of the table of boxes.

    Args:
        boxes: columns as in PHRASE_BOXES.
        images: ids of the images.

    Returns:
        R regions, each once: an id `image#number`, the image and the box (R, 4) float32 of each;
        and the rows of each chain's boxes, by image and chain.
    """
    subset = boxes[boxes["image_id"].isin(images)]
    subset = subset.iloc[
        np.argsort(pd.Index(images).get_indexer(pd.Index(subset["image_id"])), kind="stable")
    ]
    rows = subset.groupby(["image_id", *SIDES], sort=False).ngroup()
    first = subset[~rows.duplicated()]
    names = first["image_id"].tolist()
    numbers = first.groupby("image_id").cumcount()
    chains = rows.groupby([subset["image_id"], subset["chain"]], sort=False)
    return DistinctRegions(
        ids=[f"{name}#{number}" for name, number in zip(names, numbers, strict=True)],
        image_ids=names,
        boxes=first[list(SIDES)].to_numpy(np.float32),
        of_chain=chains.agg(list).to_dict(),
    )
