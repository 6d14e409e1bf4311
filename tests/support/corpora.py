"""The tables of a corpus from rows, and params.yaml with keys changed."""

import json
from collections.abc import Sequence
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

import pandas as pd

from pipeline.corpus.tables import Corpus
from pipeline.runtime.yaml_text import read_yaml

ROOT = Path(__file__).resolve().parents[2]
IMAGES = ["image_id", "path", "split", "group", "width", "height", "sha256"]
CAPTIONS = ["caption_id", "image_id", "split", "text", "tokens"]
BOXES = ["image_id", "x1", "y1", "x2", "y2", "object", "attributes"]

Rows = pd.DataFrame | Sequence[Sequence[Any]]


SHARDS = {"extraction": {"engine": "local", "workers": 2, "shard": 4}}  # of `runtime`


def images_table(rows: Sequence[Sequence[Any]]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=IMAGES)


def write_corpus(
    target: Path,
    images: Rows,
    captions: Rows = (),
    boxes: Rows = (),
    relevance: pd.DataFrame | None = None,
) -> None:
    Corpus(
        images=pd.DataFrame(images, columns=IMAGES),
        captions=pd.DataFrame(captions, columns=CAPTIONS),
        boxes=pd.DataFrame(boxes, columns=BOXES, dtype=object),
        rejects=pd.DataFrame(columns=["file", "reason"]),
        relevance=relevance,
    ).write(target)


def change_params(folder: Path, **changes: Any) -> None:
    """Set keys of the params.yaml in a folder, which begins as the repository's own on one thread
    of the CPU, with raw data in the folder itself, and without rows of earlier runs.

    changes: dotted keys, `__` for a dot; what is given for a section is merged into it.
    """
    path = folder / "params.yaml"
    if path.exists():
        values = read_yaml(path)
    else:
        values = read_yaml(ROOT / "params.yaml")
        values["raw"] = "."
        values["runtime"] |= {"device": "cpu", "threads": 1}
        values["runtime"]["extraction"]["kept_gb"] = 0  # a test that runs twice computes twice
    for key, value in changes.items():
        names = key.split("__")
        node = holder(values, names)
        node[names[-1]] = merged(node.get(names[-1]), value)
    path.write_text(json.dumps(values, indent=1))  # YAML, too, and written in a tenth of the time


def holder(values: dict[str, Any], path: Sequence[str]) -> dict[str, Any]:
    """The section that has the last key of a path."""
    return reduce(getitem, path[:-1], values)


def merged(old: Any, new: Any) -> Any:
    """new, or the keys of old with those of new set where both are sections and old has any."""
    if not (isinstance(old, dict) and old and isinstance(new, dict)):
        return new
    return {**old, **{key: merged(old.get(key), value) for key, value in new.items()}}
