"""ECCV Caption's lists (Chun et al. 2022): for 1,261 images and 1,332 captions of MS-COCO's 5K test
images all captions and images that fit, found by five models and judged by people.

The two lists are of different queries: a pair that the images' list has counts for the image, and
for the caption only if the captions' list has it, too.
"""

import importlib.util
from pathlib import Path

import pandas as pd

from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.text import read_json

FILES = {"i2t": "eccv_image_to_caption.json", "t2i": "eccv_caption_to_image.json"}
EXPECTED = "expected are the files of the package eccv_caption: number -> list of numbers"


def installed() -> Path:
    """The folder of the lists in the package eccv_caption; WorkbenchError when it is missing."""
    spec = importlib.util.find_spec("eccv_caption")
    if spec is None or spec.origin is None:
        raise WorkbenchError(
            "corpus.positives = eccv: the package eccv_caption, which has the lists, is missing",
            "install it (pip install eccv_caption), or set corpus.positives_path to their folder",
        )
    return Path(spec.origin).parent / "data"


def read(folder: Path, threshold: float = 0.0) -> pd.DataFrame:
    """The pairs of both lists.

    Args:
        folder: that of the two files.
        threshold: not used: the lists have no ratings.

    Returns:
        Columns image and caption (MS-COCO's numbers), grade (1), and i2t and t2i: whether a pair
        counts for the image, and for the caption.

    Raises:
        WorkbenchError: a file that is missing, or is no list of numbers.
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
    """The pairs of query and item in a file."""
    if not path.is_file():
        raise WorkbenchError(f"{path}: no such file", EXPECTED)
    lists = read_json(path)
    try:
        return {(int(query), int(item)) for query, items in lists.items() for item in items}
    except (AttributeError, TypeError, ValueError):
        raise WorkbenchError(f"{path}: not lists of numbers by number", EXPECTED) from None
