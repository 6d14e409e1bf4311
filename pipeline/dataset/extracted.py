"""Images out of shards: each is written once, as it was, into the folder of the corpus."""

import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.text import is_inside, is_text

FOLDER = "images"
CHUNK = 1 << 20  # bytes copied at a time
# The most that an image of a size in pixels can need: four channels of 16 bits, and its metadata.
BYTES_PER_PIXEL, METADATA = 8, 1 << 20


class ExtractedImages:
    """The folder `images` in the corpus, which must be new: nothing is written over. max_megapixels
    bounds an image's bytes before any is copied."""

    def __init__(self, out: Path, max_megapixels: float) -> None:
        self.root = out / FOLDER
        self.max_bytes = int(max_megapixels * 1e6) * BYTES_PER_PIXEL + METADATA
        try:
            self.root.mkdir(parents=True)
        except FileExistsError:
            raise WorkbenchError(
                f"{self.root}: is there already", "remove it, or run: dvc repro prepare_corpus"
            ) from None

    def write(self, image_id: str, size: int, stream: BinaryIO) -> str:
        """Copy `size` bytes of a stream to the file of an image; returns what is wrong, or "". A
        name that leads out of the folder is not written: the check of all ids refuses it."""
        if not is_inside(image_id) or not is_text(image_id):
            return "a name that leads out of the image folder"
        if size > self.max_bytes:
            return f"{size:,} bytes, allowed are {self.max_bytes:,} for corpus.max_megapixels"
        path = self.root / image_id
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with open(path, "xb") as target:
                for start in range(0, size, CHUNK):
                    target.write(stream.read(min(CHUNK, size - start)))
        except (FileExistsError, NotADirectoryError, IsADirectoryError):
            return "its file would lie where another image's does"
        return ""

    def remove(self, image_ids: Iterable[str]) -> None:
        for image_id in image_ids:
            if is_inside(image_id):
                (self.root / image_id).unlink(missing_ok=True)


@contextmanager
def removed_on_error(out: Path) -> Iterator[None]:
    """Remove a new folder of images when an exception ends the reading."""
    root = out / FOLDER
    existed = root.exists()
    try:
        yield
    except BaseException:
        if not existed:
            shutil.rmtree(root, ignore_errors=True)  # the error that is under way says more
        raise
