"""What every reader takes and returns, and the questions all of them ask of a folder."""

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from pipeline.corpus.dataset.folder import Folder, list_folder
from pipeline.corpus.params import CorpusConfig, ShapesConfig
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.text import is_inside


@dataclass(frozen=True)
class Options:
    """All that a reader may depend on: the parameters that its stage declares to DVC.

    seed: of splits that no file names; the scenes have their own in shapes. workers: processes;
    they never change the result. look: only look, so that images inside shards are not written.
    folder: the files of `raw` where they have been listed already.
    """

    seed: int
    corpus: CorpusConfig
    shapes: ShapesConfig
    workers: int = 1
    look: bool = False
    folder: Folder | None = None


@dataclass(frozen=True)
class Source:
    """What a reader read, in source order, before any check of the files.

    images: image_id (the file's path inside root, with slashes), split, and optionally group and
    fault (why a reader could not bring the image, "" where it did). captions: caption_id, image_id,
    text, and optionally tokens. boxes: image_id, x1, y1, x2, y2 in pixels, object, attributes; None
    when there are none. remarks: lines for the user about what was left out by option. positives:
    caption_id and image_id of further images that captions are of, some perhaps of images that the
    source lacks; None for none. has_files: False where there are features and no photographs, so
    that an image is its id alone. settings: those that read the features, as `key=value`. folder:
    the user's, None where nothing of it was read. files: those that were read, as paths inside it.
    """

    root: Path
    images: pd.DataFrame
    captions: pd.DataFrame
    boxes: pd.DataFrame | None = None
    remarks: tuple[str, ...] = ()
    positives: pd.DataFrame | None = None
    has_files: bool = True
    settings: tuple[str, ...] = ()
    folder: Folder | None = None
    files: tuple[str, ...] = ()


def list_raw(raw: Path, options: Options) -> Folder:
    """The files below the user's folder.

    Args:
        raw: the folder.
        options: they have the list where `auto` made it to choose the reader.

    Returns:
        The list of files, read from disk only where `options` have none.

    Raises:
        WorkbenchError: `raw` is no folder, or has too many files.
    """
    return list_folder(raw) if options.folder is None else options.folder


def features_from(path: Path) -> tuple[str, ...]:
    """The settings that read image features from a file or a folder, as `key=value`."""
    return "image_features.source=file", f"image_features.file.path={path.absolute()}"


def find_in_raw(raw: Path, name: str, key: str, is_folder: bool = False) -> Path:
    """The file or folder that a setting names inside the user's folder.

    Args:
        raw: the user's folder.
        name: its path inside `raw`, with slashes.
        key: the setting in params.yaml, for messages, such as corpus.images.
        is_folder: whether it must be a folder.

    Returns:
        `raw` and `name` joined: something that exists.

    Raises:
        WorkbenchError: the path leads out of `raw`, nothing is there, or it is a file where a
            folder is needed.
    """
    if not is_inside(name.rstrip("/")):
        raise WorkbenchError(f"{key} = {name!r}: must be a path inside raw = {str(raw)!r}")
    path = raw / name
    if not path.exists():
        raise WorkbenchError(f"{key} = {name!r}: no such file or folder in raw = {str(raw)!r}")
    if is_folder and not path.is_dir():
        raise WorkbenchError(f"{key} = {name!r}: not a folder", "name a folder in raw")
    return path
