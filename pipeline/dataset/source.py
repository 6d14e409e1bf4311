"""What every reader takes and returns, and the questions all of them ask of a folder."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from pipeline.dataset.params import CorpusConfig, ShapesConfig
from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.runtime.text import is_inside

IMAGE_FOLDERS = ("Images", "images", "flickr30k_images")


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


def find_annotations(raw: Path, name: str | None, patterns: Sequence[str]) -> Path:
    """The annotation file in `raw`: the named one (corpus.annotations), or the only one that
    matches a glob; WorkbenchError for none or several."""
    require_folder(raw)
    if name is not None:
        path = find_in_raw(raw, name, "corpus.annotations")
        if not path.is_file():
            raise WorkbenchError(f"corpus.annotations = {name!r}: not a file", "name a file in raw")
        return path
    files = sorted({p for pattern in patterns for p in raw.glob(pattern) if p.is_file()})
    if len(files) == 1:
        return files[0]
    if files:
        raise WorkbenchError(
            f"{raw}: several annotation files: {listing(path.name for path in files)}",
            "choose one with corpus.annotations in params.yaml",
        )
    raise WorkbenchError(
        f"{raw}: no annotation file; looked for {', '.join(patterns)}",
        "set raw to the folder that holds it, or name it with corpus.annotations in params.yaml",
    )


def find_image_folder(raw: Path, name: str | None, files: Sequence[str]) -> Path:
    """The folder the images are in: the named one (corpus.images), the only usual one, or `raw`
    itself where it has one of the `files`; WorkbenchError for none or several."""
    if name is not None:
        folder = find_in_raw(raw, name, "corpus.images")
        if not folder.is_dir():
            raise WorkbenchError(f"corpus.images = {name!r}: not a folder", "name a folder in raw")
        return folder
    folders = [raw / folder for folder in IMAGE_FOLDERS if (raw / folder).is_dir()]
    if len(folders) > 1:
        raise WorkbenchError(
            f"{raw}: several image folders: {listing(path.name for path in folders)}",
            "choose one with corpus.images in params.yaml",
        )
    if folders:
        return folders[0]
    if any(is_inside(file) and os.path.exists(raw / file) for file in files):
        return raw
    raise WorkbenchError(
        f"{raw}: no image folder; looked for {', '.join(IMAGE_FOLDERS)} and for the images "
        "themselves",
        "name the folder with corpus.images in params.yaml",
    )
