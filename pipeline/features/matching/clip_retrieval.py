"""What `clip-retrieval inference` writes: img_emb/img_emb_0.npy, text_emb/text_emb_0.npy, and
metadata/metadata_0.parquet with a row for each of their rows, in several parts.

Images are named by `image_path`. Captions are named by nothing: a row of text_emb is the `caption`
of its row of the metadata, so it is looked for among the captions of that image.
"""

import re
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from pipeline.features.arrays.file import Array, ArrayFile, concatenated
from pipeline.features.arrays.formats import open_arrays
from pipeline.features.matching.images import ImageMatcher
from pipeline.runtime.errors import WorkbenchError, counted, listing
from pipeline.runtime.process import say
from pipeline.runtime.text import printable

IMAGES = "img_emb"
CAPTIONS = "text_emb"
METADATA = "metadata"
PATH = "image_path"
CAPTION = "caption"


@dataclass(frozen=True)
class Parts:
    """Vectors of all parts, in the order of their numbers."""

    path: Path  # the folder, or the one part
    vectors: Array  # (N, D)
    arrays: list[Path]  # a file for each part
    metadata: list[Path]  # a file for each part
    others: int  # parts beside the one that was named

    @property
    def files(self) -> list[Path]:
        """All that is read."""
        return [*self.arrays, *self.metadata]

    def image_paths(self) -> list[str]:
        """N paths of images on the machine where they were embedded."""
        texts = self._column(PATH)
        if texts is None:
            columns = open_arrays(self.metadata[0]).names
            raise WorkbenchError(
                f"{self.metadata[0]}: no column {PATH}; it has {listing(columns) or 'none'}",
                self._own_ids(IMAGES, "image_id"),
            )
        return texts

    def image_ids(self, matcher: ImageMatcher) -> list[str]:
        """N image_ids of image embeddings; a path of no image as it is."""
        return matcher.named(self.image_paths(), str(self.path))

    def caption_ids(self, matcher: ImageMatcher, captions: pd.DataFrame) -> list[str]:
        """The captions of text embeddings.

        Args:
            matcher: of the corpus's images.
            captions: table of the corpus's captions.

        Returns:
            N caption_ids; an unknown image's path as it is.

        Raises:
            WorkbenchError: for a text that is no caption of its image, and where nothing says which
                of several captions a row is.
        """
        paths = self.image_paths()
        images = matcher.named(paths, str(self.path))
        texts = self._column(CAPTION)
        captions_of: dict[str, list[tuple[str, str]]] = defaultdict(list)
        described = zip(captions["caption_id"], map(_plain, captions["text"]), strict=True)
        for image, caption in zip(captions["image_id"], described, strict=True):
            captions_of[image].append(caption)
        if texts is None:
            return [
                self._only_caption(row, image, captions_of[image])
                for row, image in enumerate(images)
            ]
        return [
            self._caption_of_text(row, text, captions_of[image]) if image in captions_of else image
            for row, (image, text) in enumerate(zip(images, texts, strict=True))
        ]

    def _own_ids(self, kind: str, key: str) -> str:
        """The hint to say which rows are which with a list of ids."""
        return (
            f"name a file of {kind} and put a list of ids beside it, such as "
            f"{self.arrays[0].stem}.ids.txt, one {key} a line"
        )

    def _column(self, name: str) -> list[str] | None:
        values: list[str] = []
        for path in self.metadata:
            array = open_arrays(path).get(name)
            if array is None or array.dtype.kind != "O":
                return None
            for block in array.blocks():
                values += block.tolist()
        return values

    def _caption_of_text(self, row: int, text: str, captions: list[tuple[str, str]]) -> str:
        """The image's caption of this text; of equal ones the first that has no row yet."""
        plain = _plain(text)
        for place, (caption, other) in enumerate(captions):
            if other == plain:
                del captions[place]
                return caption
        raise WorkbenchError(
            f"{self.path}, row {row:,}: {printable(text[:80])!r} is no caption of its image in the "
            "corpus, or its row stands there twice",
            self._own_ids(CAPTIONS, "caption_id"),
        )

    def _only_caption(self, row: int, image: str, captions: list[tuple[str, str]]) -> str:
        if len(captions) > 1:
            raise WorkbenchError(
                f"{self.path}, row {row:,}: {image} has {counted(len(captions), 'caption')}, and "
                f"{self.metadata[0]} has no column {CAPTION} that says which",
                self._own_ids(CAPTIONS, "caption_id"),
            )
        return captions[0][0] if captions else image


def open_parts(path: Path, kind: str) -> Parts | None:
    """The vectors of clip-retrieval at a path.

    Args:
        path: the folder with img_emb, text_emb and metadata; one of the first two; or one part.
        kind: img_emb or text_emb, what is wanted.

    Returns:
        The parts, None where the path is nothing of this kind.

    Raises:
        WorkbenchError: where parts have no metadata or other numbers of rows.
    """
    folder = path / kind if path.is_dir() and (path / kind).is_dir() else path
    if folder.is_dir():
        arrays = sorted(folder.glob(f"{kind}_*.npy"), key=_part)
    else:
        arrays = [folder] if re.fullmatch(rf"{kind}_\d+\.npy", folder.name) else []
    if not arrays:
        return None
    metadata = [_metadata_of(array) for array in arrays]
    lacking = [file for file in metadata if not file.is_file()]
    if lacking and not path.is_dir():
        return None  # a file of that name, with a list of ids or none
    if lacking:
        raise WorkbenchError(
            f"{lacking[0]}: no such file; it says which images the rows of {arrays[0].name} are",
            f"copy the folder {METADATA} of clip-retrieval beside {folder}",
        )
    others = len(list(arrays[0].parent.glob(f"{kind}_*.npy"))) - len(arrays)
    if others:
        say(f"{path}: {counted(others, 'other part')} not read; name {arrays[0].parent} for all")
    opened = [open_arrays(array).array("") for array in arrays]
    for array, file in zip(opened, metadata, strict=True):
        _check_count(array, open_arrays(file))
    return Parts(path, concatenated(str(path), opened), arrays, metadata, others)


def has_both(path: Path) -> bool:
    """Whether a folder has vectors of images and of captions."""
    return all((path / kind).is_dir() for kind in (IMAGES, CAPTIONS))


def _check_count(array: Array, metadata: ArrayFile) -> None:
    names = [name for name in metadata.names if name in (PATH, CAPTION)]
    if names:
        rows = metadata.array(names[0]).shape[0]
        if rows != array.shape[0]:
            raise WorkbenchError(
                f"{array.place}: {array.shape[0]:,} rows; {metadata.path} has {rows:,}",
                "copy both from the same run of clip-retrieval",
            )


def _metadata_of(array: Path) -> Path:
    number = array.stem.rpartition("_")[2]
    return array.parent.parent / METADATA / f"{METADATA}_{number}.parquet"


def _part(path: Path) -> tuple[int, str]:
    number = path.stem.rpartition("_")[2]
    return int(number) if number.isdigit() else -1, path.name


def _plain(text: str) -> str:
    return " ".join(text.split())
