"""The public interface to an exported model: vectors of images and captions in three lines."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from PIL import Image

from pipeline.corpus.images import open_rgb
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.files import sha256_file
from pipeline.runtime.repeatable import pick_device
from pipeline.search.index import query_words
from vse_workbench.export.folder import CONFIG, read_folder
from vse_workbench.search.embedder import QueryEmbedder

MAX_PIXELS = 100_000_000
DEVICES = ("auto", "cpu", "cuda")
LONGEST = 60  # characters of a value in a message
OPENED = (
    "embed an opened image with of_image(image.convert('RGB')), an array with "
    "of_image(Image.fromarray(array))"
)


class Embedder:
    """An exported model that embeds images and captions.

    `Embedder.load(folder)` makes one, of a folder that `vse export model` wrote. Inner products of
    its vectors are the model's scores, but of scan and dp_rnn, which compare regions with words:
    theirs are the vectors by which search makes its shortlist. Pickled, as for processes that a
    DataLoader starts, it is loaded again from its folder.

    model: its name; sha256: the digest of weights and description; export_sha256: that of all files
    of the export; scores_are_products: whether inner products are the model's scores.

    Args:
        folder: that `vse export model` wrote.
        device: `cpu`, `cuda`, or `auto`: cuda if there is one.

    Raises:
        WorkbenchError: no exported folder, a file that is missing or was changed, another device,
            `cuda` where torch sees none.
    """

    def __init__(self, folder: Path | str, device: str = "cpu") -> None:
        if device not in DEVICES:
            raise WorkbenchError(f"device {device!r}: allowed are {', '.join(DEVICES)}")
        self.model, files, checkpoint = read_folder(Path(folder))
        self._queries = QueryEmbedder(self.model, files, checkpoint, pick_device(device))
        self.sha256 = checkpoint.sha256
        self.export_sha256 = sha256_file(Path(folder) / CONFIG)
        self._folder = Path(folder).absolute()
        self._device = device
        self.scores_are_products = self._queries.compares_vectors

    @classmethod
    def load(cls, folder: Path | str, device: str = "cpu") -> Self:
        """The model of an exported folder.

        Args:
            folder: that `vse export model` wrote.
            device: `cpu`, `cuda`, or `auto`: cuda if there is one.

        Returns:
            The model, ready.

        Raises:
            WorkbenchError: no exported folder, a file that is missing or was changed, another
                device, `cuda` where torch sees none.
        """
        return cls(folder, device)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickled as the place of its folder, which whoever unpickles it must have, too."""
        return _load_again, (type(self), self._folder, self._device, self.export_sha256)

    def images(self, paths: Sequence[Path | str]) -> np.ndarray:
        """Vectors of N image files, (N, K) float32 with unit rows.

        Raises:
            WorkbenchError: one path instead of a list, an empty list, no image file, one of more
                than 100 million pixels, a model whose image features came from a file.
        """
        opened = (open_rgb(path, MAX_PIXELS) for path in _items_of_list(paths, (str, Path), "path"))
        return np.stack([self.of_image(image) for image in opened])

    def of_image(self, image: Image.Image) -> np.ndarray:
        """The vector of an opened RGB image, (K,) float32 of length 1."""
        if not isinstance(image, Image.Image):
            raise WorkbenchError(f"{_described(image)}, not an opened image", OPENED)
        return self._queries.of_image(image).vector

    def captions(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors of M texts, (M, K) float32 with unit rows.

        Unknown words are read as `<unk>` or left out, as in training; standard error names them.

        Raises:
            WorkbenchError: one text instead of a list, an empty list, a text without any word that
                the model knows.
        """
        words = [query_words(text) for text in _items_of_list(texts, (str,), "text")]
        return np.stack([self._queries.of_words(caption, None).vector for caption in words])


def _load_again(kind: type[Embedder], folder: Path, device: str, export_sha256: str) -> Embedder:
    """What was pickled, loaded again; WorkbenchError for another export in its folder."""
    embedder = kind(folder, device)
    if embedder.export_sha256 != export_sha256:
        raise WorkbenchError(
            f"{folder}: exported again since the embedder was pickled", "load it again"
        )
    return embedder


def _items_of_list(value: object, kinds: tuple[type, ...], what: str) -> list[Any]:
    """The items of a list; WorkbenchError for one item instead, none, or one of another type."""
    if isinstance(value, (str, Path)):
        raise WorkbenchError(f"one {what} where a list is expected", f"write [{str(value)!r}]")
    if isinstance(value, (bytes, Mapping)) or not isinstance(value, Iterable):
        raise WorkbenchError(f"{_described(value)} where a list is expected")
    items = list(value)
    if not items:
        raise WorkbenchError(f"an empty list: at least one {what} is needed")
    for number, item in enumerate(items, start=1):
        if not isinstance(item, kinds):
            hint = OPENED if what == "path" and _is_picture(item) else ""
            raise WorkbenchError(
                f"number {number} of the list is {_described(item)}, not a {what}", hint
            )
    return items


def _is_picture(item: object) -> bool:
    return isinstance(item, Image.Image) or bool(getattr(item, "shape", ()))


def _described(item: object) -> str:
    """What a value is, on one line: an array by its shape, anything long by its beginning."""
    if isinstance(item, Image.Image):
        return f"an opened image of {item.width} x {item.height} pixels"
    shape = getattr(item, "shape", ())
    if shape:
        return f"an array of shape {tuple(shape)}"
    text = " ".join(repr(item).split())
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
