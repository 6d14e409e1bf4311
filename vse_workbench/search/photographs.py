"""Searching a folder of images that belongs to no run, with vectors of an exported model."""

import os
from pathlib import Path

import numpy as np

from pipeline.corpus.images import FORMATS, check_aspect, open_rgb
from pipeline.features.feature_file import FeatureFile, write_features
from pipeline.runtime.disk import to_workbench_error
from pipeline.runtime.errors import WorkbenchError, counted, listing
from pipeline.runtime.files import fingerprint
from pipeline.runtime.process import Progress, say
from pipeline.runtime.text import is_text, printable
from pipeline.search.index import Hit, top_rows
from vse_workbench.export.embedder import MAX_PIXELS, Embedder
from vse_workbench.search.searcher import Answer

VERSION = 1  # one more where code gives other vectors of the same export and image
Vectors = dict[str, np.ndarray]  # by the digest of a file's path, size and time, its vector (K,)


def search_folder(embedder: Embedder, folder: Path, vector: np.ndarray, top: int) -> Answer:
    """The images of a folder, and of those below it, nearest to a vector. Hidden names are left
    out, links to folders not followed; what else is no image that can be used is named on standard
    error.

    Args:
        embedder: of the images.
        folder: that is searched.
        vector: (K,) of the query.
        top: how many.

    Returns:
        The images with the largest products, best first.

    Raises:
        WorkbenchError: there is no such folder, or no image in it.
    """
    if not folder.is_dir():
        raise WorkbenchError(f"{folder}: no such folder")
    files, skipped = _image_files(folder)
    vectors = _embed_files(embedder, folder, files, skipped)
    if skipped:
        names = (
            f"{printable(name)} ({reason.partition(' (')[0]})" for name, reason in skipped.items()
        )
        say(f"skipped {counted(len(skipped), 'file')}: {listing(names, 3)}")
    if not vectors:
        raise WorkbenchError(f"{folder}: no image in it; {', '.join(FORMATS)} are read")
    paths = [str(path) for key, path in files.items() if key in vectors]
    scores = np.stack([vectors[key] for key in files if key in vectors]) @ vector
    ranked = enumerate(top_rows(scores, top), start=1)
    hits = [Hit(n, float(scores[row]), paths[row], "", paths[row]) for n, row in ranked]
    return Answer("image", len(paths), hits)


def _embed_files(
    embedder: Embedder, folder: Path, files: dict[str, Path], skipped: dict[str, str]
) -> Vectors:
    """Vectors of the files that are images: those that were kept, and new ones."""
    cache = _cache_path(embedder, folder)
    kept = _read_vectors(cache)
    vectors = {key: kept[key] for key in files if key in kept}
    new = files.keys() - kept.keys()
    try:
        with Progress(f"embed {folder}", len(new), "files") as progress:
            for key in filter(new.__contains__, files):
                try:
                    image = open_rgb(files[key], MAX_PIXELS)
                    check_aspect(image)
                except (WorkbenchError, OSError) as error:
                    skipped[str(files[key])] = _reason(error)
                else:
                    vectors[key] = embedder.of_image(image)
                progress.update()
    finally:
        if vectors and vectors.keys() != kept.keys():
            _write_vectors(cache, vectors)
    return vectors


def _image_files(folder: Path) -> tuple[dict[str, Path], dict[str, str]]:
    """The files of a folder by the keys of their vectors; why others are left out, by path."""
    files = {}
    skipped = {}

    def skip(error: OSError) -> None:
        skipped[str(error.filename)] = error.strerror or str(error)

    for parent, folders, names in os.walk(folder, onerror=skip):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        links = [path for name in folders if (path := Path(parent, name)).is_symlink()]
        skipped |= {str(path): "a link to a folder" for path in links}
        for path in (Path(parent, name) for name in sorted(names) if not name.startswith(".")):
            try:
                status = path.stat()
            except OSError as error:
                skip(error)
                continue
            if is_text(str(path)):
                relative = str(path.relative_to(folder))
                key = fingerprint(path=relative, size=status.st_size, time=status.st_mtime_ns)
                files[key] = path
            else:
                skipped[str(path)] = "its name is not UTF-8"
    return files, skipped


def _cache_path(embedder: Embedder, folder: Path) -> Path:
    """Where vectors of a folder are kept: neither in it, nor in the export."""
    caches = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    if not os.path.isabs(caches):
        raise WorkbenchError(f"{caches}: no folder for caches", "set XDG_CACHE_HOME=/path/of/one")
    key = fingerprint(version=VERSION, model=embedder.export_sha256, folder=str(folder.resolve()))
    return Path(caches, "vse-workbench", f"{key}.h5")


def _read_vectors(cache: Path) -> Vectors:
    try:
        if not cache.is_file():
            return {}
        file = FeatureFile(cache)
        return dict(zip(file.ids, file.load(), strict=True))
    except (WorkbenchError, OSError) as error:
        say(f"all images are embedded again: {_reason(error)}")
        return {}


def _write_vectors(cache: Path, vectors: Vectors) -> None:
    """Write the vectors; a cache that cannot be written does not cost the answer."""
    try:
        write_features(cache, list(vectors), {"features": np.stack([*vectors.values()])}, {})
        say(f"{cache}: vectors of {counted(len(vectors), 'image')}, for the next search")
    except (WorkbenchError, OSError) as error:
        say(f"the vectors are not kept: {_reason(error)}")


def _reason(error: WorkbenchError | OSError) -> str:
    cause = error if isinstance(error, WorkbenchError) else to_workbench_error(error)
    return getattr(cause, "reason", cause.message)  # that of an image without its path
