"""The corpus as galleries show it: looked up by id, pictures made once for all models."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd

from pipeline.corpus.images import open_rgb
from pipeline.report.pictures import thumbnail
from pipeline.runtime.errors import WorkbenchError, listing

REMEDY = "score the corpus that is there now: dvc repro"


@dataclass(frozen=True)
class Entry:
    """An image (picture: a data URI) or a caption (text) in a gallery."""

    id: str
    picture: str = ""
    text: str = ""


class CorpusLookup:
    """Images and captions of the corpus by id; thumbnails are made once.

    Args:
        images: the images table.
        captions: the captions table.
    """

    def __init__(self, images: pd.DataFrame, captions: pd.DataFrame) -> None:
        self.paths: dict[str, str] = dict(zip(images["image_id"], images["path"], strict=True))
        self._texts = dict(zip(captions["caption_id"], captions["text"], strict=True))
        self._owners = dict(zip(captions["caption_id"], captions["image_id"], strict=True))
        self._picture = cache(lambda image_id: thumbnail(open_rgb(self.paths[image_id])))

    def captions_of_images(self, captions: Sequence[str]) -> np.ndarray:
        """How many of these captions each of their images has: (images,) int64."""
        return np.unique([self._owners[name] for name in captions], return_counts=True)[1]

    def check(self, path: Path, images: Sequence[str], captions: Sequence[str]) -> None:
        """Refuse a file of another corpus.

        Args:
            path: the file, for the message.
            images: ids that it names.
            captions: ids that it names.

        Raises:
            WorkbenchError: the corpus lacks one of them.
        """
        lost = [name for name in images if name not in self.paths]
        lost += [name for name in captions if name not in self._texts]
        if lost:
            raise WorkbenchError(f"{path}: {listing(lost, 5)} not in the corpus", REMEDY)

    def image(self, image_id: str) -> Entry:
        """An image with its thumbnail, or its id in words where it has no file; WorkbenchError
        naming a file that is not readable."""
        if not self.paths[image_id]:
            return Entry(image_id, text=f"image {image_id}")
        return Entry(image_id, picture=self._picture(image_id))

    def caption(self, caption_id: str) -> Entry:
        return Entry(caption_id, text=self._texts[caption_id])
