"""Images out of shards: each is written once, as it was, into the folder of the corpus."""

import hashlib
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
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
    """The folder `images` in the corpus, which must be new: nothing is written over."""

    def __init__(self, out: Path, max_megapixels: float, keep: bool = True) -> None:
        """Make the folder.

        Args:
            out: the folder of the corpus.
            max_megapixels: corpus.max_megapixels; it bounds an image's bytes before any is copied.
            keep: whether images are written; False: they are read and compared alone.

        Raises:
            WorkbenchError: the folder is there already.
        """
        self.root = out / FOLDER
        self.max_bytes = int(max_megapixels * 1e6) * BYTES_PER_PIXEL + METADATA
        self.keep = keep
        self._digests: dict[str, bytes] = {}  # SHA-256 of every image that is not empty
        self._folders: set[Path] = set()  # those that are there
        if not keep:
            return
        try:
            self.root.mkdir(parents=True)
        except FileExistsError:
            raise WorkbenchError(
                f"{self.root}: is there already", "remove it, or run: dvc repro prepare_corpus"
            ) from None

    def write(self, image_id: str, size: int, stream: BinaryIO, digest: bytes | None = None) -> str:
        """Copy an image from a stream to its file.

        Args:
            image_id: the file's path inside the folder. A name that leads out of it is not
                written: the check of all ids refuses it.
            size: how many bytes of the stream are the image.
            stream: where they are.
            digest: their SHA-256 where it is known already.

        Returns:
            What is wrong with the image, "" for nothing.
        """
        if not is_inside(image_id) or not is_text(image_id):
            return "a name that leads out of the image folder"
        if size > self.max_bytes:
            return f"{size:,} bytes, allowed are {self.max_bytes:,} for corpus.max_megapixels"
        counted = hashlib.sha256()
        chunks = (stream.read(min(CHUNK, size - start)) for start in range(0, size, CHUNK))
        try:
            with self._target(image_id) as write:
                for chunk in chunks:
                    write(chunk)
                    if digest is None:
                        counted.update(chunk)
        except (FileExistsError, NotADirectoryError, IsADirectoryError):
            return "its file would lie where another image's does"
        if size:
            self._digests[image_id] = counted.digest() if digest is None else digest
        return ""

    @contextmanager
    def _target(self, image_id: str) -> Iterator[Callable[[bytes], object]]:
        """What takes an image's bytes: its new file, or nothing where none is kept."""
        if not self.keep:
            yield len
            return
        path = self.root / image_id
        if path.parent not in self._folders:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._folders.add(path.parent)
        with open(path, "xb") as target:
            yield target.write

    def copies(self) -> list[list[str]]:
        """The images of every photograph that was written more than once, byte for byte."""
        images: dict[bytes, list[str]] = defaultdict(list)
        for image_id, digest in self._digests.items():
            images[digest].append(image_id)
        return [own for own in images.values() if len(own) > 1]

    def rename(self, image_id: str, new: str) -> None:
        """Give an image another id; `new` lies in the same folder and is no image's yet."""
        if image_id in self._digests:
            self._digests[new] = self._digests.pop(image_id)
        if self.keep and is_inside(image_id) and (self.root / image_id).is_file():
            (self.root / image_id).rename(self.root / new)

    def remove(self, image_ids: Iterable[str]) -> None:
        """Remove the files of images that the corpus leaves out."""
        for image_id in image_ids:
            self._digests.pop(image_id, None)
            if self.keep and is_inside(image_id):
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
