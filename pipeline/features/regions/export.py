"""Our regions in the formats of other tools. SCAN's has no boxes."""

import base64
import math
from pathlib import Path

import numpy as np
import pandas as pd

from pipeline.corpus.tables import SPLITS, in_split
from pipeline.features.feature_file import FeatureFile
from pipeline.features.regions.boxes import has_boxes
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.files import atomic_path, write_text
from pipeline.runtime.process import Progress, say

SCAN_NAMES = {"train": "train", "val": "dev", "test": "test"}
SCAN_CAPTIONS = 5  # a constant of SCAN's code: fewer rows than captions mean five for each


def export_tsv(file: FeatureFile, folder: Path) -> Path:
    """Write regions.tsv, all images in the file's order; image_id is the corpus's own.

    Args:
        file: of regions.
        folder: in which it is written.

    Returns:
        The path of regions.tsv.

    Raises:
        WorkbenchError: where the regions have no boxes.
    """
    if not has_boxes(file):
        raise WorkbenchError(
            f"{file.path}: its regions have no boxes, which the TSV needs",
            "export to scan_npy, or extract the regions again",
        )
    target = folder / "regions.tsv"
    with (
        atomic_path(target) as temporary,
        open(temporary, "wb") as handle,
        Progress("export", len(file), "images") as progress,
    ):
        for row, name in enumerate(file.ids):
            handle.write(_line(file, row, name))
            progress.update()
    return target


def export_scan(
    file: FeatureFile, images: pd.DataFrame, captions: pd.DataFrame, folder: Path
) -> list[Path]:
    """Write {train,dev,test}_ims.npy (N, R, D) float32, _caps.txt and _ids.txt.

    Args:
        file: of regions.
        images: table of the corpus's images.
        captions: table of the corpus's captions.
        folder: in which they are written.

    Returns:
        The paths of the arrays. They have a row for each image where every image of a split has
        five captions, else a row for each caption.

    Raises:
        WorkbenchError: for images without a row in the file of regions.
    """
    return [
        _export_split(file, in_split(images, split), in_split(captions, split), folder, split)
        for split in SPLITS
        if (images["split"] == split).any()
    ]


def _line(file: FeatureFile, row: int, name: str) -> bytes:
    count = int(file.read([row], "counts")[0])
    width, height = file.read([row], "sizes")[0].tolist()
    fields = [name.encode(), b"%d" % width, b"%d" % height, b"%d" % count]
    for dataset in ("boxes", "features"):
        values = file.read([row], dataset)[0][:count]
        fields.append(base64.b64encode(np.ascontiguousarray(values, "<f4").tobytes()))
    return b"\t".join(fields) + b"\n"


def _export_split(
    file: FeatureFile, images: pd.DataFrame, captions: pd.DataFrame, folder: Path, split: str
) -> Path:
    ids = images["image_id"].tolist()
    texts = captions.groupby("image_id", sort=False)["tokens"].agg(list)
    once = all(len(texts[name]) == SCAN_CAPTIONS for name in ids)
    if not once:
        say(
            f"{split}: not {SCAN_CAPTIONS} captions for every image, so each image is repeated for "
            "each of its captions; SCAN's evaluation counts five a caption all the same"
        )
    rows = [name for name in ids for _ in range(1 if once else len(texts[name]))]
    prefix = SCAN_NAMES[split]
    target = folder / f"{prefix}_ims.npy"
    _write_array(file, rows, target)
    words = [" ".join(tokens) for name in ids for tokens in texts[name]]
    write_text(folder / f"{prefix}_caps.txt", "".join(f"{line}\n" for line in words))
    write_text(folder / f"{prefix}_ids.txt", "".join(f"{name}\n" for name in rows))
    return target


def _write_array(file: FeatureFile, names: list[str], target: Path, block: int = 64) -> None:
    rows = file.rows(names)
    shape = (len(rows), *file.shape()[1:])
    head = {"descr": "<f4", "fortran_order": False, "shape": shape}
    with (
        atomic_path(target, 4 * math.prod(shape)) as temporary,
        open(temporary, "wb") as handle,
        Progress(target.name, len(rows), "rows") as progress,
    ):
        np.lib.format.write_array_header_1_0(handle, head)
        for start in range(0, len(rows), block):
            values = file.read(rows[start : start + block])
            handle.write(np.ascontiguousarray(values, "<f4").data)
            progress.update(len(values))
