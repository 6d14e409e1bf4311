"""A corpus with some other images than before, for rows of earlier runs."""

import hashlib
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image

# Settings of `runtime`: rows of an earlier run may be used, or none are there.
ROWS_ARE_KEPT = {"extraction": {"kept_gb": 1.0}}
NO_ROW_IS_KEPT = {"extraction": {"kept_gb": 0}}


def with_others(images: pd.DataFrame) -> pd.DataFrame:
    """Two images removed, one changed under its name, one added in front."""
    table = images.drop(index=[1, 8]).reset_index(drop=True)
    front = table.iloc[[3]].assign(image_id="new.png", path="pictures/new.png", group="new.png")
    table = pd.concat([front, table], ignore_index=True)
    return new_picture(new_picture(table, 0), 5)


def new_picture(images: pd.DataFrame, row: int) -> pd.DataFrame:
    """An image's file with random pixels in it, and the table that says so."""
    table = images.copy()
    path = Path(table.loc[row, "path"])
    height, width = table.loc[row, "height"], table.loc[row, "width"]
    pixels = np.random.default_rng(9 + row).integers(0, 256, (height, width, 3), np.uint8)
    Image.fromarray(pixels).save(path)
    table.loc[row, "sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    return table
