"""What every reader takes and returns, and the questions all of them ask of a folder."""

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from pipeline.dataset.params import CorpusConfig, ShapesConfig
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.text import is_inside


@dataclass(frozen=True)
class Options:
    """All that a reader may depend on: the parameters that its stage declares to DVC."""

    seed: int  # of splits that no file names; the scenes have their own in shapes
    corpus: CorpusConfig
    shapes: ShapesConfig
    workers: int = 1  # processes; never changes the result
    look: bool = False  # only look: images inside shards are not written


@dataclass(frozen=True)
class Source:
    """What a reader read, in source order, before any check of the files.

    images: image_id (the file's path inside root, with slashes), split, and optionally group and
    fault (why a reader could not bring the image, "" where it did). captions: caption_id, image_id,
    text, and optionally tokens. boxes: image_id, x1, y1, x2, y2 in pixels, object, attributes; None
    when there are none. remarks: lines for the user about what was left out by option. positives:
    caption_id and image_id of further images that captions are of, some perhaps of images that the
    source lacks; None for none.
    """

    root: Path
    images: pd.DataFrame
    captions: pd.DataFrame
    boxes: pd.DataFrame | None = None
    remarks: tuple[str, ...] = ()
    positives: pd.DataFrame | None = None


def require_folder(raw: Path) -> None:
    if not raw.is_dir():
        raise WorkbenchError(f"raw = {str(raw)!r}: not a folder", "set raw in params.yaml")


def find_in_raw(raw: Path, name: str, key: str) -> Path:
    """The file or folder that `key` of params.yaml names inside `raw`; WorkbenchError for none."""
    if not is_inside(name.rstrip("/")):
        raise WorkbenchError(f"{key} = {name!r}: must be a path inside raw = {str(raw)!r}")
    path = raw / name
    if not path.exists():
        raise WorkbenchError(f"{key} = {name!r}: no such file or folder in raw = {str(raw)!r}")
    return path
