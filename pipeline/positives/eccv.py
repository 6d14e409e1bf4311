"""ECCV Caption's lists (Chun et al. 2022): for 1,261 images and 1,332 captions of MS-COCO's 5K test
images all captions and images that fit, found by five models and judged by people.

The two lists are of different queries: a pair that the images' list has counts for the image, and
for the caption only if the captions' list has it, too.
"""

import importlib.util
from pathlib import Path
from typing import Any

import pandas as pd

from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.text import read_json

FILES = {"i2t": "eccv_image_to_caption.json", "t2i": "eccv_caption_to_image.json"}
EXPECTED = "expected are the files of the package eccv_caption: number -> list of numbers"


def installed() -> Path:
    """The folder of the lists in the package eccv_caption; WorkbenchError when it is missing."""
    found = importlib.util.find_spec("eccv_caption")
    if found is None or found.origin is None:
        raise WorkbenchError(
            "corpus.positives = eccv: the package eccv_caption, which has the lists, is missing",
            "install it (pip install eccv_caption), or set corpus.positives_path to their folder",
        )
    return Path(found.origin).parent / "data"


def read(folder: Path, threshold: float = 0.0) -> pd.DataFrame:
    """Pairs of image and caption numbers, grade 1, and by direction whether they count.

    folder: with both lists; threshold: unused, all pairs have grade 1. Raises WorkbenchError for a
    list that is missing or of another format.
    """
    lists = {way: _read_list(folder / name) for way, name in FILES.items()}
    columns = {"i2t": ["image", "caption"], "t2i": ["caption", "image"]}
    tables = {
        way: pd.DataFrame(sorted(lists[way]), columns=columns[way], dtype="int64").assign(
            **{way: True}
        )
        for way in FILES
    }
    pairs = tables["i2t"].merge(tables["t2i"], "outer", ["image", "caption"])
    return pairs.assign(grade=1.0, **{way: pairs[way].eq(True) for way in FILES})


def _read_list(path: Path) -> set[tuple[int, int]]:
    """Pairs of a query's number and an item's."""
    if not path.is_file():
        raise WorkbenchError(f"{path}: no such file", EXPECTED)
    value = read_json(path)
    if not isinstance(value, dict) or not value:
        raise WorkbenchError(f"{path}: not an object with entries", EXPECTED)
    for query, items in value.items():
        if not (_is_number(query) and isinstance(items, list) and all(map(_is_whole, items))):
            raise WorkbenchError(f"{path}: entry {query[:40]!r} is not a list of numbers", EXPECTED)
    return {(int(query), item) for query, items in value.items() for item in items}


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 18  # of 64 bits


def _is_whole(value: Any) -> bool:
    return type(value) is int and 0 <= value < 10**18
