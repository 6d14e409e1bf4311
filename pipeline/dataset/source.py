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
    """All that a reader may depend on: the parameters that its stage declares to DVC.

    Attributes:
        seed: of a split that no file tells; the scenes have their own in shapes.
        corpus: the section corpus.
        shapes: the section shapes.
        workers: processes; never changes the result.
    """

    seed: int
    corpus: CorpusConfig
    shapes: ShapesConfig
    workers: int = 1  # processes; never changes the result


@dataclass(frozen=True)
class Source:
    """What a reader found, in source order, before any check of the files.

    Attributes:
        root: folder of the images.
        images: image_id (the file's path inside root, with slashes), split, and optionally group
            and fault (why a reader could not bring the image, "" where it did).
        captions: caption_id, image_id, text, and optionally tokens.
        boxes: image_id, x1, y1, x2, y2 in pixels, object, attributes; None when there are none.
        remarks: lines for the user about what was left out by option.
    """

    root: Path
    images: pd.DataFrame
    captions: pd.DataFrame
    boxes: pd.DataFrame | None = None
    remarks: tuple[str, ...] = ()


def find_in_raw(raw: Path, name: str, key: str) -> Path:
    """The file or folder that a key of params.yaml names inside `raw`.

    Args:
        raw: folder to look in.
        name: path inside it.
        key: of params.yaml, for the message.

    Raises:
        WorkbenchError: nothing is there, or the name leads out of raw.
    """
    if not is_inside(name.rstrip("/")):
        raise WorkbenchError(f"{key} = {name!r}: must be a path inside raw = {str(raw)!r}")
    path = raw / name
    if not path.exists():
        raise WorkbenchError(f"{key} = {name!r}: no such file or folder in raw = {str(raw)!r}")
    return path


def find_annotations(raw: Path, name: str | None, patterns: Sequence[str]) -> Path:
    """The annotation file in `raw`: the named one, or the only one that matches a pattern.

    Args:
        raw: folder to look in.
        name: path inside raw, corpus.annotations; None to look for the patterns.
        patterns: globs inside raw.

    Raises:
        WorkbenchError: no such file, or several that match.
    """
    if not raw.is_dir():
        raise WorkbenchError(f"raw = {str(raw)!r}: not a folder", "set raw in params.yaml")
    if name is not None:
        path = find_in_raw(raw, name, "corpus.annotations")
        if not path.is_file():
            raise WorkbenchError(f"corpus.annotations = {name!r}: not a file", "name a file in raw")
        return path
    found = sorted({p for pattern in patterns for p in raw.glob(pattern) if p.is_file()})
    if len(found) == 1:
        return found[0]
    if found:
        raise WorkbenchError(
            f"{raw}: several annotation files: {listing(path.name for path in found)}",
            "choose one with corpus.annotations in params.yaml",
        )
    raise WorkbenchError(
        f"{raw}: no annotation file; looked for {', '.join(patterns)}",
        "set raw to the folder that holds it, or name it with corpus.annotations in params.yaml",
    )


def find_image_folder(raw: Path, name: str | None, files: Sequence[str]) -> Path:
    """The folder the images are in: the named one, the only usual one, or `raw` itself.

    Args:
        raw: folder to look in.
        name: path inside raw, corpus.images; None to look for the usual ones.
        files: paths of images inside the folder; `raw` is taken where it has one of them.

    Raises:
        WorkbenchError: no such folder, or several of the usual ones.
    """
    if name is not None:
        folder = find_in_raw(raw, name, "corpus.images")
        if not folder.is_dir():
            raise WorkbenchError(f"corpus.images = {name!r}: not a folder", "name a folder in raw")
        return folder
    found = [raw / folder for folder in IMAGE_FOLDERS if (raw / folder).is_dir()]
    if len(found) > 1:
        raise WorkbenchError(
            f"{raw}: several image folders: {listing(path.name for path in found)}",
            "choose one with corpus.images in params.yaml",
        )
    if found:
        return found[0]
    if any(is_inside(file) and os.path.exists(raw / file) for file in files):
        return raw
    raise WorkbenchError(
        f"{raw}: no image folder; looked for {', '.join(IMAGE_FOLDERS)} and for the images "
        "themselves",
        "name the folder with corpus.images in params.yaml",
    )
